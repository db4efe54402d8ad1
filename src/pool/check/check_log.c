/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/check/pool_check.h"

#include <string.h>

#include "base/err.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/records.h"
#include "pool/pool_impl.h"

#define LEFTOVERS_AT_ONCE 64

/* The lost commits may have assigned numbers. A counter that cannot be read is advanced
 * when it is repaired. */
static int jump_late(void *arg, struct catalogue_batch *batch, struct cairn_err *err)
{
	struct cairn_err why = {0};
	uint64_t first;
	int rc = pool_records_take_numbers(batch, CHECK_NUMBER_JUMP, &first, &why);

	(void)arg;
	if (rc == CAIRN_DATA_LOSS)
		return 0;
	if (rc && err)
		*err = why;
	return rc;
}

static int clear_leftovers(struct catalogue *cat, struct catalogue_batch *batch,
			   struct cairn_err *err)
{
	char ids[LEFTOVERS_AT_ONCE][POOL_ID_MAX + 1];
	char after[POOL_ID_MAX + 1] = "";
	size_t n;

	do {
		int rc = pool_records_leftovers(cat, after, ids, LEFTOVERS_AT_ONCE, &n, err);

		if (rc)
			return rc;
		for (size_t i = 0; i < n; i++)
			pool_records_cleanup_clear(batch, ids[i]);
		if (n > 0)
			memcpy(after, ids[n - 1], sizeof(after));
	} while (n == LEFTOVERS_AT_ONCE);
	return 0;
}

/* The catalogue is older than the data: objects that it lists as half-made may have
 * been finished since, and settling the list would remove them. Once off the list they
 * are found as data without a record, and are kept. This must be one commit: it moves
 * the mark that shows the loss, so the next process would settle entries that are
 * still on the list. */
static int leave_lost_behind(struct catalogue *cat, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	int rc = pool_catalogue_batch_new(cat, &batch, err);

	if (!rc)
		rc = clear_leftovers(cat, batch, err);
	if (rc)
		return rc;
	pool_catalogue_batch_late(batch, jump_late, NULL);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

int pool_check_log(struct check *check, struct cairn_err *err)
{
	struct catalogue *cat = check->pool->cat;
	const char *fault = pool_catalogue_log_fault(cat);

	if (!fault)
		return 0;
	pool_check_fault(check, check->spec->repair ? POOL_FAULT_LOST : POOL_FAULT_FOUND,
			 "catalogue: its log %s: what was committed last is lost", fault);
	return check->spec->repair ? leave_lost_behind(cat, err) : 0;
}
