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
	struct ledger_key value = ledger_key_number('#', number);

	catalogue_expect(batch, ledger_key_bytes(name), ledger_key_bytes(&value));
	catalogue_delete(batch, ledger_key_bytes(name));
}

static void put_name(struct catalogue_batch *batch, const struct ledger_key *name, uint64_t number)
{
	struct ledger_key value = ledger_key_number('#', number);

	catalogue_put(batch, ledger_key_bytes(name), ledger_key_bytes(&value));
}

void ledger_volume_rename(struct catalogue_batch *batch, const struct record_volume *old,
			  const struct record_volume *now)
{
	struct ledger_key before = ledger_key_text('w', old->name);
	struct ledger_key after = ledger_key_text('w', now->name);

	ledger_volume_change(batch, old, now);
	drop_own_name(batch, &before, old->volume);
	catalogue_expect(batch, ledger_key_bytes(&after), absent);
	put_name(batch, &after, now->volume);
}

int ledger_snapshot_rename(struct catalogue *cat, struct catalogue_batch *batch,
			   const struct record_snapshot *old, const struct record_snapshot *now,
			   struct cairn_err *err)
{
	struct ledger_key before = ledger_key_named('m', old->volume, old->name);
	struct ledger_key after = ledger_key_named('m', now->volume, now->name);
	cairn_auto_free uint8_t *holder = NULL;
	size_t n = 0;
	int rc = catalogue_get(cat, ledger_key_bytes(&after), &holder, &n, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	rc = ledger_snapshot_change(cat, batch, old, now, err);
	if (rc)
		return rc;
	drop_own_name(batch, &before, old->number);
	catalogue_expect(batch, ledger_key_bytes(&after),
			 holder ? (struct catalogue_bytes){holder, n} : absent);
	put_name(batch, &after, now->number);
	return 0;
}
