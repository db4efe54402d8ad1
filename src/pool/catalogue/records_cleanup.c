/* SPDX-License-Identifier: Apache-2.0 */

/* Records of what is still to be deleted from the store: an entry for each leftover. */

#include "pool/catalogue/records.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/random.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/record_key.h"

/* A leftover's stamp: its kind and random digits. Entries without a stamp are
 * from older versions. */
#define STAMP_RANDOM 8U
#define STAMP_FROZEN 'f'

static void add_leftover(struct catalogue_batch *batch, const char *id, char kind)
{
	struct ledger_key key = pool_records_key_text('i', id);
	char stamp[LEDGER_STAMP_MAX + 1] = {kind};

	if (cairn_random_hex(stamp + 1, STAMP_RANDOM, NULL) != 0)
		pool_catalogue_batch_fail(batch, "leftover");
	else
		pool_catalogue_put(batch, pool_records_key_bytes(&key),
				   (struct catalogue_bytes){stamp, strlen(stamp)});
}

void pool_records_cleanup_add(struct catalogue_batch *batch, const char *id)
{
	add_leftover(batch, id, '-');
}

void pool_records_cleanup_add_frozen(struct catalogue_batch *batch, const char *id)
{
	add_leftover(batch, id, STAMP_FROZEN);
}

int pool_records_cleanup_get(struct catalogue *cat, const char *id, struct ledger_leftover *ret,
			     struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_text('i', id);
	cairn_auto_free uint8_t *value = NULL;
	size_t len;
	int rc = pool_catalogue_get(cat, pool_records_key_bytes(&key), &value, &len, err);

	if (rc)
		return rc;
	if (len > LEDGER_STAMP_MAX)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "an index entry makes no sense");
	*ret = (struct ledger_leftover){.n = len, .frozen = len > 0 && value[0] == STAMP_FROZEN};
	memcpy(ret->stamp, value, len);
	return 0;
}

void pool_records_cleanup_clear_seen(struct catalogue_batch *batch, const char *id,
				     const struct ledger_leftover *seen)
{
	struct ledger_key key = pool_records_key_text('i', id);

	pool_catalogue_expect(batch, pool_records_key_bytes(&key),
			      (struct catalogue_bytes){seen->stamp, seen->n});
	pool_catalogue_delete(batch, pool_records_key_bytes(&key));
}

void pool_records_cleanup_clear(struct catalogue_batch *batch, const char *id)
{
	struct ledger_key key = pool_records_key_text('i', id);

	pool_catalogue_delete(batch, pool_records_key_bytes(&key));
}

int pool_records_cleanup_listed(struct catalogue *cat, const char *id, bool *ret,
				struct cairn_err *err)
{
	struct ledger_key key = pool_records_key_text('i', id);
	cairn_auto_free uint8_t *value = NULL;
	size_t len;
	int rc = pool_catalogue_get(cat, pool_records_key_bytes(&key), &value, &len, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	*ret = rc == 0;
	return 0;
}
