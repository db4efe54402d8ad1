/* SPDX-License-Identifier: Apache-2.0 */

/* Checks values of the catalogue that are neither records nor indexes: the last
 * number assigned, the list of leftovers, a front end's notes. */

#include "pool/check/pool_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/record_key.h"
#include "pool/catalogue/records.h"
#include "pool/check/inventory.h"
#include "pool/check/quarantine.h"
#include "pool/pool_impl.h"
#include "pool/store/changeset_file.h"

static uint64_t highest_number(const struct check *check)
{
	const struct inventory *inv = check->inv;
	uint64_t highest = inv->n_snapshots ? inv->snapshots[inv->n_snapshots - 1].number : 0;
	uint64_t stored = check->n_stored_snapshots
				  ? check->stored_snapshots[check->n_stored_snapshots - 1]
				  : 0;

	return stored > highest ? stored : highest;
}

static int jump_counter(struct check *check, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct ledger_key key = pool_records_key_kind('n');
	int rc = pool_catalogue_batch_new(check->pool->cat, &batch, err);

	if (!rc)
		rc = pool_quarantine_keep_value(check->pool->cat, batch,
						pool_records_key_bytes(&key), err);
	if (rc)
		return rc;
	pool_records_set_last_number(batch, highest_number(check) + CHECK_NUMBER_JUMP);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

/* The counter is read from the same state as the snapshots that it counts. */
static int check_counter(struct check *check, struct cairn_err *err)
{
	const struct inventory *inv = check->inv;
	uint64_t highest = inv->n_snapshots ? inv->snapshots[inv->n_snapshots - 1].number : 0;
	bool damaged = false;
	struct cairn_err why = {0};
	const char *text;
	int rc;

	for (size_t i = 0; i < inv->n_others; i++)
		damaged = damaged || inv->others[i].key[0] == 'n';
	if (!damaged && highest <= inv->last_number)
		return 0;
	text = damaged ? "the last snapshot number given can not be read"
		       : "the last snapshot number given is lower than one in use";
	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", text);
		return 0;
	}
	rc = jump_counter(check, &why);
	return pool_check_outcome(check, rc, &why, POOL_FAULT_REPAIRED, text, err);
}

/* "i/<id>": the key holds all information. */
static bool is_leftover(const struct inventory_other *other)
{
	const char *id = (const char *)other->key + 2;
	uint64_t a;
	uint64_t b;

	return other->key[0] == 'i' && strlen(id) + 2 == other->key_len &&
	       (pool_ids_parse_volume(id, &a) || pool_ids_parse_snapshot(id, &a, &b) ||
		pool_changeset_file_parse_name(id, &a, &b));
}

static int mend_value(struct check *check, const struct inventory_other *other,
		      struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct catalogue_bytes key = {other->key, other->key_len};
	int rc = pool_catalogue_batch_new(check->pool->cat, &batch, err);

	if (!rc)
		rc = pool_quarantine_keep_value(check->pool->cat, batch, key, err);
	if (rc)
		return rc;
	if (is_leftover(other))
		pool_records_cleanup_add(batch, (const char *)other->key + 2);
	else
		pool_catalogue_delete(batch, key);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

static int check_other_check_value(struct check *check, const struct inventory_other *other,
				   struct cairn_err *err)
{
	char kind = (char)other->key[0];
	bool lost = kind == 'x' || kind == 'q';
	struct cairn_err why = {0};
	char text[300];
	int rc;

	if (kind == 'n')
		return 0;
	snprintf(text, sizeof(text), "the value of '%.200s' in the catalogue is damaged",
		 (const char *)other->key);
	if (!check->spec->repair || (!lost && kind != 'i')) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", text);
		return 0;
	}
	rc = mend_value(check, other, &why);
	return pool_check_outcome(check, rc, &why, lost ? POOL_FAULT_LOST : POOL_FAULT_REPAIRED,
				  text, err);
}

int pool_check_others(struct check *check, struct cairn_err *err)
{
	int rc = check_counter(check, err);

	for (size_t i = 0; i < check->inv->n_others && !rc; i++)
		rc = check_other_check_value(check, &check->inv->others[i], err);
	return rc;
}
