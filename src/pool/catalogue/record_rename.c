/* SPDX-License-Identifier: Apache-2.0 */

/* Changes names of records in the catalogue. */

#include "pool/catalogue/records.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/record_key.h"

static const struct catalogue_bytes absent = {NULL, 0};

/* The entry must refer to this record: a repair may have given the name to
 * another. */
static void drop_own_name(struct catalogue_batch *batch, const struct ledger_key *name,
			  uint64_t number)
{
	struct ledger_key value = pool_records_key_number('#', number);

	pool_catalogue_expect(batch, pool_records_key_bytes(name), pool_records_key_bytes(&value));
	pool_catalogue_delete(batch, pool_records_key_bytes(name));
}

static void put_name(struct catalogue_batch *batch, const struct ledger_key *name, uint64_t number)
{
	struct ledger_key value = pool_records_key_number('#', number);

	pool_catalogue_put(batch, pool_records_key_bytes(name), pool_records_key_bytes(&value));
}

void pool_records_volume_rename(struct catalogue_batch *batch, const struct record_volume *old,
				const struct record_volume *now)
{
	struct ledger_key before = pool_records_key_text('w', old->name);
	struct ledger_key after = pool_records_key_text('w', now->name);

	pool_records_volume_change(batch, old, now);
	drop_own_name(batch, &before, old->volume);
	pool_catalogue_expect(batch, pool_records_key_bytes(&after), absent);
	put_name(batch, &after, now->volume);
}

int pool_records_snapshot_rename(struct catalogue *cat, struct catalogue_batch *batch,
				 const struct record_snapshot *old,
				 const struct record_snapshot *now, struct cairn_err *err)
{
	struct ledger_key before = pool_records_key_named('m', old->volume, old->name);
	struct ledger_key after = pool_records_key_named('m', now->volume, now->name);
	cairn_auto_free uint8_t *holder = NULL;
	size_t n = 0;
	int rc = pool_catalogue_get(cat, pool_records_key_bytes(&after), &holder, &n, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	rc = pool_records_snapshot_change(cat, batch, old, now, err);
	if (rc)
		return rc;
	drop_own_name(batch, &before, old->number);
	pool_catalogue_expect(batch, pool_records_key_bytes(&after),
			      holder ? (struct catalogue_bytes){holder, n} : absent);
	put_name(batch, &after, now->number);
	return 0;
}
