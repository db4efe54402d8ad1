/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/lost_record.h"

#include "base/err.h"
#include "pool/catalogue/records.h"
#include "pool/pool_impl.h"

int pool_lost_record_check(struct pool *pool, struct store_ref ref, struct cairn_err *err)
{
	bool listed = false;
	uint64_t size;
	int rc = pool_records_cleanup_listed(pool->cat, ref.id, &listed, err);

	if (rc || listed)
		return rc;
	rc = pool_store_size(pool->store, ref, &size, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "'%s' has data and no record; run: cairn pool check", ref.id);
}
