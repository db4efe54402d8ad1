/* SPDX-License-Identifier: Apache-2.0 */

/* Damaged values of the catalogue that are neither records nor indexes: the last
 * number given, what is to be looked at again, a front end's notes. */

#include "pool/check.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue.h"
#include "pool/handle.h"
#include "pool/ledger.h"
#include "pool/ledger_key.h"

/* How far a lost counter jumps beyond the highest number in use: numbers that
 * have expired must not be given again, and nobody ever had so many. */
#define NUMBER_JUMP (1ULL << 32)

/* Kinds that the other checks look at. */
#define KINDS_TOLD "vswlmcht"

static int highest_number(void *arg, const struct record_snapshot *snapshot, struct cairn_err *err)
{
	uint64_t *highest = arg;

	(void)err;
	*highest = snapshot->number > *highest ? snapshot->number : *highest;
	return 0;
}

static int repair(struct check *check, struct catalogue_bytes key, struct cairn_err *err)
{
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	uint64_t highest = 0;
	struct ledger_walk walk = {
		.snapshot = highest_number, .fault = check_ignore_fault, .arg = &highest};
	bool counter = *(const char *)key.data == 'n';
	int rc = catalogue_batch_new(check->pool->cat, &batch, err);

	if (!rc && counter)
		rc = ledger_walk_snapshots(check->pool->cat, &walk, err);
	if (rc)
		return rc;
	if (counter)
		ledger_set_last_number(batch, highest + NUMBER_JUMP);
	else
		catalogue_delete(batch, key);
	return catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

static int check_value(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		       bool damaged, struct cairn_err *err)
{
	struct check *check = arg;
	char kind = *(const char *)key.data;
	enum pool_fault_state state = POOL_FAULT_FOUND;
	int rc = 0;

	(void)value;
	if (!damaged || strchr(KINDS_TOLD, kind))
		return 0;
	if (check->spec->repair) {
		rc = repair(check, key, err);
		state = kind == 'x' ? POOL_FAULT_LOST : POOL_FAULT_REPAIRED;
	}
	if (!rc)
		check_fault(check, state, "the checksum of '%.*s' in the catalogue does not fit",
			    (int)key.len, (const char *)key.data);
	return rc;
}

int check_others(struct check *check, struct cairn_err *err)
{
	struct catalogue_bytes all = {"", 0};

	return catalogue_scan(check->pool->cat, all, all, check_value, check, err);
}
