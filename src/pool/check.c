/* SPDX-License-Identifier: Apache-2.0 */

/* Verifying a pool: records, references between them, indexes, set files, data.
 *
 * Repairing never guesses. Indexes are derived from records and made again from
 * them; a set is computed again where both snapshots still have their data;
 * what no record wants is removed. What can not be had again is recorded as
 * lost, so that a query is refused and not answered wrongly.
 */

#include "pool/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue.h"
#include "pool/complete.h"
#include "pool/handle.h"
#include "pool/ids.h"
#include "pool/ledger.h"
#include "pool/leftover.h"
#include "pool/pool.h"
#include "pool/setfile.h"
#include "pool/store.h"

void check_fault(struct check *check, enum pool_fault_state state, const char *fmt, ...)
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

/* ---- records ------------------------------------------------------------ */

void check_ignore_fault(void *arg, char kind, uint64_t key, const char *reason)
{
	(void)arg;
	(void)kind;
	(void)key;
	(void)reason;
}

static void broken_record(void *arg, char kind, uint64_t key, const char *reason)
{
	struct check *check = arg;
	char id[POOL_ID_MAX + 1];

	if (kind == 'v')
		ids_format_volume(key, id);
	else
		snprintf(id, sizeof(id), "snapshot number %" PRIu64, key);
	check_fault(check, check->spec->repair ? POOL_FAULT_LOST : POOL_FAULT_FOUND,
		    "the record of %s can not be read: %s", id, reason);
}

static int check_volume(void *arg, const struct record_volume *volume, struct cairn_err *err)
{
	struct check *check = arg;
	struct pool *pool = check->pool;
	char id[POOL_ID_MAX + 1];
	bool listed = false;
	uint64_t size = 0;
	int rc;

	ids_format_volume(volume->volume, id);
	if (volume->deleted)
		return 0;
	check->result.volumes++;
	rc = store_size(pool->store, (struct store_ref){STORE_VOLUME, id}, &size, err);
	if (rc)
		check_fault(check, check->spec->repair ? POOL_FAULT_LOST : POOL_FAULT_FOUND,
			    "the data of volume '%s' (%s) can not be read: %s", volume->name, id,
			    err->msg);
	else if (size != volume->size)
		rc = leftover_is_listed(pool, id, &listed, err);
	if (!rc && size != volume->size && !listed)
		check_fault(check, POOL_FAULT_FOUND,
			    "volume '%s' (%s) has %" PRIu64 " bytes, its record says %" PRIu64,
			    volume->name, id, size, volume->size);
	if (volume->head) {
		struct record_snapshot head;

		rc = ledger_snapshot_get(pool->cat, volume->head, &head, err);
		if (rc || !head.has_data)
			return check_lost_head(check, volume, err);
	}
	return 0;
}

static void check_snapshot_data(struct check *check, const struct record_snapshot *snapshot,
				const char *id)
{
	struct cairn_err err = {0};
	uint64_t size;
	int rc;

	if (!snapshot->has_data)
		return;
	rc = store_size(check->pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &size, &err);
	if (rc)
		check_fault(check, check->spec->repair ? POOL_FAULT_LOST : POOL_FAULT_FOUND,
			    "the data of %s can not be read: %s", id, err.msg);
	else if (size != snapshot->size)
		check_fault(check, POOL_FAULT_FOUND,
			    "%s has %" PRIu64 " bytes, its record says %" PRIu64, id, size,
			    snapshot->size);
}

static int check_snapshot(void *arg, const struct record_snapshot *snapshot, struct cairn_err *err)
{
	struct check *check = arg;
	struct record_volume volume;
	char id[POOL_ID_MAX + 1];

	if (check->spec->progress && check->spec->progress->cancelled &&
	    check->spec->progress->cancelled(check->spec->progress->arg))
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	ids_format_snapshot(snapshot->volume, snapshot->number, id);
	if (!snapshot->deleted)
		check->result.snapshots++;
	if (ledger_volume_get(check->pool->cat, snapshot->volume, &volume, err) != 0)
		check_fault(check, POOL_FAULT_FOUND, "the volume of %s is not known: %s", id,
			    err->msg);
	check_snapshot_data(check, snapshot, id);
	return check_set(check, snapshot, id, err);
}

/* ---- objects that no record knows --------------------------------------- */

struct stray {
	struct check *check;
	enum store_kind kind;
};

static bool is_wanted(struct check *check, enum store_kind kind, const char *id)
{
	struct record_volume volume;
	struct record_snapshot snapshot;
	struct cairn_err ignored;
	uint64_t bits;
	uint64_t number;

	if (kind == STORE_VOLUME)
		return ids_parse_volume(id, &bits) &&
		       ledger_volume_get(check->pool->cat, bits, &volume, &ignored) == 0 &&
		       !volume.deleted;
	return ids_parse_snapshot(id, &bits, &number) &&
	       ledger_snapshot_get(check->pool->cat, number, &snapshot, &ignored) == 0 &&
	       snapshot.volume == bits && snapshot.has_data;
}

/* The object may belong to an operation under way: only what can be locked and
 * is still unwanted then is a fault. */
static int check_object(void *arg, const char *id, struct cairn_err *err)
{
	const struct stray *stray = arg;
	struct check *check = stray->check;
	cairn_auto_fd int lock = -1;
	uint64_t volume;
	uint64_t number;
	bool listed;
	int rc = 0;

	if (is_wanted(check, stray->kind, id))
		return 0;
	if (ids_parse_volume(id, &volume) || ids_parse_snapshot(id, &volume, &number))
		rc = handle_lock_volume(check->pool, volume, 0, &lock, err);
	if (rc == CAIRN_ABORTED || (!rc && is_wanted(check, stray->kind, id)))
		return 0;
	if (!rc)
		rc = leftover_is_listed(check->pool, id, &listed, err);
	if (rc || listed)
		return rc; /* known, and gone when the pool is next opened for writing */
	if (check->spec->repair)
		rc = store_remove(check->pool->store, (struct store_ref){stray->kind, id}, err);
	if (!rc)
		check_fault(check, check->spec->repair ? POOL_FAULT_REPAIRED : POOL_FAULT_FOUND,
			    "%s '%s' is in no record",
			    stray->kind == STORE_VOLUME ? "volume data" : "snapshot data", id);
	return rc;
}

static int check_objects(struct check *check, struct cairn_err *err)
{
	struct stray volumes = {.check = check, .kind = STORE_VOLUME};
	struct stray snapshots = {.check = check, .kind = STORE_SNAPSHOT};
	int rc = store_list(check->pool->store, STORE_VOLUME, check_object, &volumes, err);

	return rc ? rc
		  : store_list(check->pool->store, STORE_SNAPSHOT, check_object, &snapshots, err);
}

/* ---- all of it ---------------------------------------------------------- */

static void catalogue_fault(void *arg, const char *line)
{
	check_fault(arg, POOL_FAULT_FOUND, "catalogue: %s", line);
}

int pool_check(struct pool *pool, const struct pool_check_spec *spec, struct pool_check_result *ret,
	       struct cairn_err *err)
{
	struct check check = {.pool = pool, .spec = spec};
	struct ledger_walk walk = {
		.volume = check_volume,
		.snapshot = check_snapshot,
		.fault = broken_record,
		.arg = &check,
	};
	int rc = spec->repair ? handle_check_writable(pool, err) : 0;

	if (!rc)
		rc = catalogue_check(pool->cat, catalogue_fault, &check, err);
	if (!rc)
		rc = ledger_walk_volumes(pool->cat, &walk, err);
	if (!rc)
		rc = ledger_walk_snapshots(pool->cat, &walk, err);
	if (!rc)
		rc = check_indexes(&check, err);
	if (!rc)
		rc = check_others(&check, err);
	if (!rc)
		rc = check_objects(&check, err);
	if (!rc)
		rc = check_stray_sets(&check, err);
	if (!rc)
		*ret = check.result;
	return rc;
}
