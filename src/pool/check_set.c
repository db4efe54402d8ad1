/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/num.h"
#include "pool/catalogue.h"
#include "pool/complete.h"
#include "pool/handle.h"
#include "pool/ledger.h"
#include "pool/leftover.h"
#include "pool/setfile.h"

/* Gives up the set's file: changes the record from what it was when it was
 * checked, and removes the file. */
static int drop_set(struct check *check, const struct record_snapshot *old,
		    const struct record_snapshot *now, struct cairn_err *err)
{
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	char name[SETFILE_NAME_MAX];
	int rc = catalogue_batch_new(check->pool->cat, &batch, err);

	if (!rc)
		rc = ledger_snapshot_change(check->pool->cat, batch, old, now, err);
	if (rc)
		return rc;
	setfile_name(old->number, old->set_generation, name);
	ledger_leftover_add(batch, name);
	rc = catalogue_commit(batch, CATALOGUE_DURABLE, err);
	return rc ? rc : leftover_settle(check->pool, name, LEFTOVER_NO_LOCK, err);
}

static int verify_file(struct check *check, const struct record_snapshot *snapshot,
		       struct cairn_err *err)
{
	cairn_cleanup(setfile_reader_freep) struct setfile_reader *reader = NULL;
	const struct block_set_info *info;
	char name[SETFILE_NAME_MAX];
	int rc;

	setfile_name(snapshot->number, snapshot->set_generation, name);
	rc = setfile_reader_new(check->pool->sets_fd, name, 0, &reader, err);
	if (!rc)
		rc = block_set_verify(setfile_reader_set(reader), err);
	if (rc)
		return rc;
	info = block_set_reader_info(setfile_reader_set(reader));
	if (info->volume_size != snapshot->size || info->extents != snapshot->set_extents ||
	    info->changed_bytes != snapshot->set_changed_bytes)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "it does not fit the snapshot's record");
	return 0;
}

/* Both snapshots are there: pending makes it anew. Otherwise it is lost. */
static int repair_set(struct check *check, const struct record_snapshot *snapshot, const char *id,
		      const char *reason, struct cairn_err *err)
{
	struct record_snapshot parent;
	struct record_snapshot now = *snapshot;
	bool possible =
		ledger_snapshot_get(check->pool->cat, snapshot->parent, &parent, err) == 0 &&
		parent.has_data && snapshot->has_data;
	int rc;

	now.set = possible ? POOL_SET_PENDING : POOL_SET_LOST;
	now.set_generation++;
	rc = drop_set(check, snapshot, &now, err);
	if (!rc && possible)
		rc = complete_set(check->pool, snapshot->number, LEFTOVER_NO_LOCK,
				  check->spec->progress, err);
	if (rc)
		return rc;
	if (possible)
		check_fault(check, POOL_FAULT_REPAIRED,
			    "the change set of %s was damaged (%s) and made again", id, reason);
	else
		check_fault(check, POOL_FAULT_LOST,
			    "the change set of %s is damaged (%s) and its snapshots are gone: "
			    "deltas over it are refused from now on",
			    id, reason);
	return 0;
}

int check_set(struct check *check, const struct record_snapshot *snapshot, const char *id,
	      struct cairn_err *err)
{
	struct record_snapshot again;
	struct record_snapshot parent;
	struct cairn_err why = {0};
	int rc;

	if (snapshot->set != POOL_SET_READY)
		return 0; /* pending ones are made when they are needed; lost ones are known */
	check->result.sets++;
	rc = verify_file(check, snapshot, &why);
	if (!rc && ledger_snapshot_get(check->pool->cat, snapshot->parent, &parent, &why) == 0)
		return 0;
	/* It may have been merged since the record was read. */
	if (ledger_snapshot_get(check->pool->cat, snapshot->number, &again, err) != 0 ||
	    again.set_generation != snapshot->set_generation || again.parent != snapshot->parent)
		return 0;
	if (check->spec->repair)
		return repair_set(check, &again, id, why.msg, err);
	check_fault(check, POOL_FAULT_FOUND, "the change set of %s is damaged: %s", id, why.msg);
	return 0;
}

int check_lost_head(struct check *check, const struct record_volume *volume, struct cairn_err *err)
{
	cairn_cleanup(catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct record_volume now = *volume;
	int rc = 0;

	if (check->spec->repair) {
		now.head = 0;
		rc = catalogue_batch_new(check->pool->cat, &batch, err);
		if (rc)
			return rc;
		ledger_volume_change(batch, volume, &now);
		rc = catalogue_commit(batch, CATALOGUE_DURABLE, err);
	}
	if (!rc)
		check_fault(check, check->spec->repair ? POOL_FAULT_LOST : POOL_FAULT_FOUND,
			    "the last snapshot of volume '%s' is gone: its next one starts a new "
			    "line",
			    volume->name);
	return rc;
}

static bool record_wants_set(struct check *check, uint64_t number, const char *name)
{
	char wanted[SETFILE_NAME_MAX];
	struct record_snapshot record;
	struct cairn_err ignored;

	if (ledger_snapshot_get(check->pool->cat, number, &record, &ignored) != 0 ||
	    record.set != POOL_SET_READY)
		return false;
	setfile_name(number, record.set_generation, wanted);
	return strcmp(wanted, name) == 0;
}

/* "set-<number>-<generation>": wanted by its record, or by
 * somebody who holds its lock. A read-only pool cannot be locked, and nobody
 * writes to it. */
static bool set_is_wanted(struct check *check, const char *name, int *ret_lock)
{
	char number_text[24];
	const char *dash = strchr(name + 4, '-');
	struct cairn_err ignored;
	uint64_t number;
	int rc;

	if (!dash || (size_t)(dash - name - 4) >= sizeof(number_text))
		return false;
	memcpy(number_text, name + 4, (size_t)(dash - name - 4));
	number_text[dash - name - 4] = '\0';
	if (cairn_parse_u64(number_text, &number, NULL) != 0)
		return false;
	if (record_wants_set(check, number, name))
		return true;
	rc = handle_lock_set(check->pool, number, 0, ret_lock, &ignored);
	return rc == CAIRN_ABORTED || (rc == 0 && record_wants_set(check, number, name));
}

static int check_set_name(struct check *check, const char *name, struct cairn_err *err)
{
	cairn_auto_fd int lock = -1;
	bool listed;
	int rc;

	if (strncmp(name, "set-", 4) != 0 || set_is_wanted(check, name, &lock))
		return 0;
	rc = leftover_is_listed(check->pool, name, &listed, err);
	if (rc || listed)
		return rc;
	if (check->spec->repair && unlinkat(check->pool->sets_fd, name, 0) < 0)
		return cairn_err_sys(err, errno, "remove '%s'", name);
	check_fault(check, check->spec->repair ? POOL_FAULT_REPAIRED : POOL_FAULT_FOUND,
		    "change set '%s' is in no record", name);
	return 0;
}

int check_stray_sets(struct check *check, struct cairn_err *err)
{
	int fd = openat(check->pool->sets_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	int rc = 0;

	if (!dir) {
		rc = cairn_err_sys(err, errno, "read the change sets");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	while (!rc && (entry = readdir(dir)))
		rc = check_set_name(check, entry->d_name, err);
	closedir(dir);
	return rc;
}
