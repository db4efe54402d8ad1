/* SPDX-License-Identifier: Apache-2.0 */

/* Verifies a pool: records, references between them, indexes, set files, data.
 *
 * Repairing never guesses and removes nothing. Indexes are rebuilt from records; a
 * record is rebuilt from the other information about it; a set is computed again
 * if both snapshots still have their data; objects without a record are moved to
 * the quarantine. What cannot be recovered is recorded as lost, so that a query
 * fails instead of being answered wrongly.
 */

#include "pool/check/pool_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/check/inventory.h"
#include "pool/check/quarantine.h"
#include "pool/pool_destroy.h"
#include "pool/pool_impl.h"
#include "pool/store/store.h"

/* How often a part runs again because another operation intervened. */
#define ROUNDS 8

void pool_check_fault(struct check *check, enum pool_fault_state state, const char *fmt, ...)
{
	char line[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	check->result.found++;
	if (state == POOL_FAULT_REPAIRED)
		check->result.repaired++;
	if (state == POOL_FAULT_LOST)
		check->result.lost++;
	if (check->spec->fault)
		check->spec->fault(check->spec->arg, state, line);
}

static bool ends_the_check(int rc)
{
	return rc == CAIRN_CANCELLED || rc == CAIRN_NO_SPACE;
}

int pool_check_outcome(struct check *check, int rc, const struct cairn_err *why,
		       enum pool_fault_state repaired, const char *text, struct cairn_err *err)
{
	if (rc == 0) {
		check->repaired = true;
		pool_check_fault(check, repaired, "%s", text);
	} else if (rc == CAIRN_ABORTED) {
		check->again = true;
	} else if (ends_the_check(rc)) {
		if (err)
			*err = *why;
		return rc;
	} else {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s (not repaired: %s)", text, why->msg);
	}
	return 0;
}

/* Takes the lock of a volume, and creates a batch for the changes under it. */
static int begin_change(struct check *check, uint64_t volume, int *ret_lock,
			struct catalogue_batch **ret_batch, struct cairn_err *err)
{
	struct pool *pool = check->pool;
	int rc = pool_impl_lock_volume(pool, volume, pool->lock_wait_ms, ret_lock, err);

	return rc ? rc : pool_catalogue_batch_new(pool->cat, ret_batch, err);
}

int pool_check_change_snapshot(struct check *check, const struct record_snapshot *old,
			       const struct record_snapshot *now, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	cairn_auto_fd int lock = -1;
	int rc = begin_change(check, old->volume, &lock, &batch, err);

	if (!rc)
		rc = pool_records_snapshot_change(check->pool->cat, batch, old, now, err);
	if (rc)
		return rc;
	if (!now->deleted && strcmp(now->name, old->name) != 0)
		pool_records_snapshot_put_name(batch, now);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

int pool_check_change_volume(struct check *check, const struct record_volume *old,
			     const struct record_volume *now, struct cairn_err *err)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	cairn_auto_fd int lock = -1;
	int rc = begin_change(check, old->volume, &lock, &batch, err);

	if (rc)
		return rc;
	pool_records_volume_change(batch, old, now);
	pool_records_volume_reindex(batch, now);
	return pool_catalogue_commit(batch, CATALOGUE_DURABLE, err);
}

/* ---- what the store has -------------------------------------------------- */

struct listing {
	uint64_t **array;
	size_t *n;
	bool snapshots;
};

static int add_stored(void *arg, const char *id, struct cairn_err *err)
{
	struct listing *listing = arg;
	size_t n = *listing->n;
	uint64_t volume;
	uint64_t number;

	if (listing->snapshots ? !pool_ids_parse_snapshot(id, &volume, &number)
			       : !pool_ids_parse_volume(id, &volume))
		return 0;
	if ((n & (n - 1)) == 0) { /* full at every power of two */
		uint64_t *grown = cairn_realloc_array(*listing->array, n ? n * 2 : 1,
						      sizeof(**listing->array));

		if (!grown)
			return cairn_err_nomem(err, "listing");
		*listing->array = grown;
	}
	(*listing->array)[(*listing->n)++] = listing->snapshots ? number : volume;
	return 0;
}

static int compare_numbers(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a;
	uint64_t right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static bool has_number(const uint64_t *array, size_t n, uint64_t number)
{
	return n > 0 && bsearch(&number, array, n, sizeof(*array), compare_numbers);
}

bool pool_check_is_stored_snapshot(const struct check *check, uint64_t number)
{
	return has_number(check->stored_snapshots, check->n_stored_snapshots, number);
}

bool pool_check_is_stored_volume(const struct check *check, uint64_t bits)
{
	return has_number(check->stored_volumes, check->n_stored_volumes, bits);
}

static int list_store(struct check *check, struct cairn_err *err)
{
	struct listing volumes = {&check->stored_volumes, &check->n_stored_volumes, false};
	struct listing snapshots = {&check->stored_snapshots, &check->n_stored_snapshots, true};
	struct store *store = check->pool->store;
	int rc;

	check->n_stored_volumes = check->n_stored_snapshots = 0;
	rc = pool_store_list(store, STORE_VOLUME, add_stored, &volumes, err);
	if (!rc)
		rc = pool_store_list(store, STORE_SNAPSHOT, add_stored, &snapshots, err);
	if (rc)
		return rc;
	if (check->n_stored_volumes)
		qsort(check->stored_volumes, check->n_stored_volumes, sizeof(uint64_t),
		      compare_numbers);
	if (check->n_stored_snapshots)
		qsort(check->stored_snapshots, check->n_stored_snapshots, sizeof(uint64_t),
		      compare_numbers);
	return 0;
}

/* ---- all of it ----------------------------------------------------------- */

/* The pool was opened by what its directory shows; catalogue and store fit to it. */
static int check_marker(struct check *check, struct cairn_err *err)
{
	struct pool *pool = check->pool;
	struct cairn_err why = {0};
	struct marker now;
	int rc;

	if (!pool->marker_fault)
		return 0;
	if (!check->spec->repair) {
		pool_check_fault(check, POOL_FAULT_FOUND, "%s", pool->marker_fault);
		return 0;
	}
	/* Only the shared lock is held, and two writers would rename each other's file. */
	pool_remove_lock_shell(pool->dir_fd);
	rc = pool_config_read(pool->dir_fd, &now, NULL);
	if (rc == 0)
		pool->marker = now; /* another process has just repaired it */
	else
		rc = pool_config_write(pool->dir_fd, &pool->marker, &why);
	pool_remove_unlock_shell(pool->dir_fd);
	return pool_check_outcome(check, rc, &why, POOL_FAULT_REPAIRED, pool->marker_fault, err);
}

static void catalogue_fault(void *arg, const char *line)
{
	pool_check_fault(arg, POOL_FAULT_FOUND, "catalogue: %s", line);
}

static bool pool_check_is_cancelled(const struct check *check)
{
	const struct store_progress *progress = check->spec->progress;

	return progress && progress->cancelled && progress->cancelled(progress->arg);
}

/* Lists the store before reading the catalogue: an object is created before the
 * record that names it. */
static int pool_check_look_again(struct check *check, struct cairn_err *err)
{
	int rc = list_store(check, err);

	pool_inventory_freep(&check->inv);
	check->inv = NULL;
	return rc ? rc : pool_inventory_take(check->pool->cat, &check->inv, err);
}

static int run_part(struct check *check, int (*part)(struct check *check, struct cairn_err *err),
		    struct cairn_err *err)
{
	int rc = 0;

	check->again = true;
	for (unsigned i = 0; i < ROUNDS && check->again && !rc; i++) {
		if (pool_check_is_cancelled(check))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
		check->again = check->repaired = false;
		rc = part(check, err);
		if (!rc && (check->again || check->repaired))
			rc = pool_check_look_again(check, err);
	}
	return rc;
}

static void count_records(struct check *check)
{
	const struct inventory *inv = check->inv;

	for (size_t i = 0; i < inv->n_volumes; i++)
		if (inv->volumes[i].state == INVENTORY_GOOD && !inv->volumes[i].record.deleted)
			check->result.volumes++;
	for (size_t i = 0; i < inv->n_snapshots; i++) {
		const struct inventory_snapshot *snapshot = &inv->snapshots[i];

		if (snapshot->state != INVENTORY_GOOD)
			continue;
		check->result.snapshots += !snapshot->record.deleted;
		check->result.sets += snapshot->record.set == POOL_SET_READY;
	}
}

static int check_all(struct check *check, struct cairn_err *err)
{
	static int (*const parts[])(struct check *, struct cairn_err *) = {
		pool_check_records, pool_check_lineage, pool_check_indexes, pool_check_others,
		pool_check_data,    pool_check_sets,    pool_check_strays,
	};
	int rc = check_marker(check, err);

	if (!rc)
		rc = pool_catalogue_check(check->pool->cat, catalogue_fault, check, err);
	if (!rc)
		rc = pool_check_log(check, err);
	if (!rc)
		rc = pool_check_look_again(check, err);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !rc; i++)
		rc = run_part(check, parts[i], err);
	if (rc)
		return rc;
	count_records(check);
	if (check->spec->repair && pool_catalogue_log_fault(check->pool->cat))
		rc = pool_catalogue_accept_log(check->pool->cat, err);
	return rc ? rc : pool_quarantine_count(check->pool, &check->result.quarantined, err);
}

int pool_check(struct pool *pool, const struct pool_check_spec *spec, struct pool_check_result *ret,
	       struct cairn_err *err)
{
	struct check check = {.pool = pool, .spec = spec};
	int rc = spec->repair ? pool_impl_check_writable(pool, err) : 0;

	if (!rc)
		rc = check_all(&check, err);
	pool_inventory_freep(&check.inv);
	free(check.stored_volumes);
	free(check.stored_snapshots);
	if (!rc)
		*ret = check.result;
	return rc;
}
