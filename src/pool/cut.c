/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/cut.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/device.h"
#include "pool/handle.h"
#include "pool/leftover.h"
#include "pool/probe.h"
#include "pool/store.h"

/* How long writers may be held. Cloning a file of many extents takes seconds on
 * XFS; a store that copies needs as long as its data takes. */
#define HOLD_MAX_MS               60000
#define HOLD_WHILE_COPYING_MAX_MS 600000

struct target {
	const struct cut_item *item;
	char device[DEVICE_PATH_MAX]; /* "" when not attached */
	char *mount;                  /* NULL when not mounted */
	bool twice;                   /* can not be held still */
};

struct cut {
	struct pool *pool;
	struct target *targets;
	size_t n;
	bool atomic;
	struct device_freeze *freeze;
};

/* True if somebody has the file open for writing: the kernel then refuses a
 * read lease. Where it refuses leases as such, the answer is "maybe". */
static bool has_writer(const char *path)
{
	cairn_auto_fd int fd = -1;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return true;
	if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return true;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return false;
}

static int examine(struct cut *cut, struct target *target, struct cairn_err *err)
{
	struct store_ref ref = {STORE_VOLUME, target->item->volume_id};
	cairn_auto_free char *path = NULL;
	int rc = store_path(cut->pool->store, ref, &path, err);

	if (rc)
		return rc;
	rc = device_find(path, target->device, err);
	if (!rc && target->device[0])
		rc = device_mount_point(target->device, &target->mount, err);
	if (rc)
		return rc;
	if (!target->mount && (cut->n > 1 || !cut->atomic))
		target->twice = target->device[0] || has_writer(path);
	return 0;
}

static int freeze_mounted(struct cut *cut, struct cairn_err *err)
{
	const char *mounts[POOL_GROUP_MAX];
	size_t n = 0;

	for (size_t i = 0; i < cut->n; i++)
		if (cut->targets[i].mount)
			mounts[n++] = cut->targets[i].mount;
	if (n == 0)
		return 0;
	return device_freeze_begin_for(mounts, n,
				       cut->atomic ? HOLD_MAX_MS : HOLD_WHILE_COPYING_MAX_MS,
				       &cut->freeze, err);
}

/* Some filesystems (vfat) can not be frozen, and one that somebody else froze can
 * be thawed by him at any time: their devices are then raw ones. */
static void treat_as_raw(struct cut *cut)
{
	for (size_t i = 0; i < cut->n; i++) {
		struct target *target = &cut->targets[i];

		if (!target->mount)
			continue;
		free(target->mount);
		target->mount = NULL;
		target->twice = cut->n > 1 || !cut->atomic;
	}
}

static int cut_one(struct cut *cut, const struct target *target, const char *snapshot_id,
		   struct cairn_err *err)
{
	int rc = target->device[0] ? device_flush(target->device, err) : 0;

	if (!rc)
		rc = store_snapshot_cut(cut->pool->store, target->item->volume_id, snapshot_id,
					err);
	return rc ? cairn_err_wrap(err, "volume '%s'", target->item->volume_name) : 0;
}

/* Cuts again and compares; the second cut is removed at once. */
static int probe(struct cut *cut, const struct target *target, bool *ret_changed,
		 struct cairn_err *err)
{
	char id[POOL_ID_MAX + 8];
	struct cairn_err ignored;
	bool same = true;
	int rc;

	leftover_probe_id(target->item->snapshot_id, id, sizeof(id));
	rc = cut_one(cut, target, id, err);
	if (!rc)
		rc = probe_same(cut->pool->store, target->item->snapshot_id, id, &same, err);
	*ret_changed = !same;
	(void)store_remove(cut->pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &ignored);
	return rc;
}

/* Both rounds, under the freeze. */
static int cut_round(struct cut *cut, const struct target **ret_restless, struct cairn_err *err)
{
	*ret_restless = NULL;
	for (size_t i = 0; i < cut->n; i++) {
		int rc = cut_one(cut, &cut->targets[i], cut->targets[i].item->snapshot_id, err);

		if (rc)
			return rc;
	}
	for (size_t i = 0; i < cut->n; i++) {
		bool changed = false;
		int rc = cut->targets[i].twice ? probe(cut, &cut->targets[i], &changed, err) : 0;

		if (rc)
			return rc;
		if (changed) {
			*ret_restless = &cut->targets[i];
			return 0;
		}
	}
	return 0;
}

static void remove_cuts(struct cut *cut)
{
	struct cairn_err ignored;

	for (size_t i = 0; i < cut->n; i++)
		(void)store_remove(
			cut->pool->store,
			(struct store_ref){STORE_SNAPSHOT, cut->targets[i].item->snapshot_id},
			&ignored);
}

static int attempt(struct cut *cut, const struct target **ret_restless, struct cairn_err *err)
{
	int rc = freeze_mounted(cut, err);

	if (rc == CAIRN_UNIMPLEMENTED || rc == CAIRN_PRECONDITION) {
		treat_as_raw(cut);
		rc = 0;
	}
	if (!rc)
		rc = cut_round(cut, ret_restless, err);
	if (!rc && cut->freeze)
		rc = device_freeze_end(cairn_take(cut->freeze), err);
	device_freeze_freep(&cut->freeze);
	cut->freeze = NULL;
	if (rc || *ret_restless)
		remove_cuts(cut);
	return rc;
}

static int cut_all(struct cut *cut, struct cairn_err *err)
{
	const struct target *restless = NULL;

	for (size_t i = 0; i < cut->n; i++) {
		int rc = examine(cut, &cut->targets[i], err);

		if (rc)
			return rc;
	}
	for (int try = 0; try < CUT_TRIES; try++) {
		int rc = attempt(cut, &restless, err);

		if (rc || !restless)
			return rc;
	}
	return cairn_err_set(err, CAIRN_ABORTED,
			     "volume '%s' kept changing while it was cut (%d tries); pause its "
			     "writer, or put a filesystem on it so that it can be frozen",
			     restless->item->volume_name, CUT_TRIES);
}

int cut_snapshots(struct pool *pool, const struct cut_item *items, size_t n, struct cairn_err *err)
{
	struct cut cut = {.pool = pool, .n = n, .atomic = pool->store->ops->cut_is_atomic};
	int rc;

	cut.targets = cairn_calloc(n, sizeof(*cut.targets));
	if (!cut.targets)
		return cairn_err_nomem(err, "snapshot");
	for (size_t i = 0; i < n; i++)
		cut.targets[i].item = &items[i];
	rc = cut_all(&cut, err);
	for (size_t i = 0; i < n; i++)
		free(cut.targets[i].mount);
	free(cut.targets);
	return rc;
}
