/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/snapshot_cut.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/cleanup_queue.h"
#include "pool/cut_compare.h"
#include "pool/device/attacher.h"
#include "pool/device/freeze_guard.h"
#include "pool/pool_impl.h"
#include "pool/store/store.h"

/* How long writers may be blocked. Cloning a file of many extents takes seconds
 * on XFS; a store that copies needs the time for copying all data. */
#define HOLD_MAX_MS               60000
#define HOLD_WHILE_COPYING_MAX_MS 600000

struct target {
	const struct cut_item *item;
	struct device_list devices; /* empty when not attached */
	bool twice;                 /* cannot be frozen */
};

struct cut {
	struct pool *pool;
	struct target *targets;
	size_t n;
	bool atomic;
	struct device_freeze *freeze;
};

static bool snapshot_cut_is_mounted(const struct target *target)
{
	for (size_t i = 0; i < target->devices.n; i++)
		if (target->devices.list[i].mount)
			return true;
	return false;
}

/* True if there may be a writer that cannot be frozen: through a device without
 * a mounted filesystem, or directly to the file. A writable device itself has
 * the file open for writing. */
static int has_raw_writer(struct cut *cut, const struct target *target, bool *ret,
			  struct cairn_err *err)
{
	struct store_ref ref = {STORE_VOLUME, target->item->volume_id};
	struct attacher_users users;
	bool writable = false;
	bool writer = false;

	for (size_t i = 0; i < target->devices.n; i++) {
		const struct device_one *device = &target->devices.list[i];

		if (!device->read_only && !device->mount)
			writer = true;
		writable = writable || !device->read_only;
	}
	if (!writer && !writable) {
		int rc = pool_attacher_users(cut->pool->attacher, ref, &users, err);

		if (rc)
			return rc;
		writer = users.writer != OPENED_NOT;
	}
	*ret = writer;
	return 0;
}

/* What a program wrote to such a device cannot be flushed, so a cut would lack it. */
static int refuse_ended(const struct target *target, struct cairn_err *err)
{
	for (size_t i = 0; i < target->devices.n; i++)
		if (target->devices.list[i].ended)
			return cairn_err_set(err, CAIRN_PRECONDITION,
					     "the program that serves %s was killed; unmount and "
					     "detach volume '%s' first",
					     target->devices.list[i].path,
					     target->item->volume_name);
	return 0;
}

static int snapshot_cut_examine(struct cut *cut, struct target *target, struct cairn_err *err)
{
	struct store_ref ref = {STORE_VOLUME, target->item->volume_id};
	int rc = pool_attacher_list(cut->pool->attacher, ref, &target->devices, err);

	if (!rc)
		rc = refuse_ended(target, err);
	if (!rc && (cut->n > 1 || !cut->atomic))
		rc = has_raw_writer(cut, target, &target->twice, err);
	return rc;
}

static int freeze_mounted(struct cut *cut, struct cairn_err *err)
{
	const char *mounts[FREEZE_MOUNTS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < cut->n; i++) {
		const struct device_list *devices = &cut->targets[i].devices;

		for (size_t j = 0; j < devices->n; j++) {
			if (!devices->list[j].mount)
				continue;
			if (n == FREEZE_MOUNTS_MAX)
				return cairn_err_set(err, CAIRN_RANGE,
						     "more than %u filesystems to freeze",
						     FREEZE_MOUNTS_MAX);
			mounts[n++] = devices->list[j].mount;
		}
	}
	if (n == 0)
		return 0;
	return pool_device_freeze_begin_for(mounts, n,
					    cut->atomic ? HOLD_MAX_MS : HOLD_WHILE_COPYING_MAX_MS,
					    &cut->freeze, err);
}

/* Some filesystems (vfat) cannot be frozen, and one that another process froze may
 * be thawed by it at any time: their devices are treated as raw. The leftovers are
 * changed accordingly, or another process's freeze would be thawed after a
 * kill. */
static int treat_as_raw(struct cut *cut, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < cut->n && !rc; i++) {
		struct target *target = &cut->targets[i];

		if (!snapshot_cut_is_mounted(target))
			continue;
		for (size_t j = 0; j < target->devices.n; j++) {
			free(target->devices.list[j].mount);
			target->devices.list[j].mount = NULL;
		}
		target->twice = cut->n > 1 || !cut->atomic;
		rc = pool_cleanup_note(cut->pool, target->item->snapshot_id, err);
	}
	return rc;
}

static int cut_one(struct cut *cut, const struct target *target, const char *snapshot_id,
		   struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < target->devices.n && !rc; i++)
		rc = pool_device_flush(target->devices.list[i].path, err);
	if (!rc)
		rc = pool_store_snapshot_cut(cut->pool->store, target->item->volume_id, snapshot_id,
					     target->item->size, err);
	return rc ? cairn_err_wrap(err, "volume '%s'", target->item->volume_name) : 0;
}

/* Cuts again and compares; the second cut is removed at once. */
static int snapshot_cut_probe(struct cut *cut, const struct target *target, bool *ret_changed,
			      struct cairn_err *err)
{
	char id[POOL_ID_MAX + 8];
	struct cairn_err ignored;
	bool same = true;
	int rc;

	pool_cleanup_probe_id(target->item->snapshot_id, id, sizeof(id));
	rc = cut_one(cut, target, id, err);
	if (!rc)
		rc = pool_cuts_are_same(cut->pool->store, target->item->snapshot_id, id, &same,
					err);
	*ret_changed = !same;
	(void)pool_store_remove(cut->pool->store, (struct store_ref){STORE_SNAPSHOT, id}, &ignored);
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
		int rc = cut->targets[i].twice
				 ? snapshot_cut_probe(cut, &cut->targets[i], &changed, err)
				 : 0;

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
		(void)pool_store_remove(
			cut->pool->store,
			(struct store_ref){STORE_SNAPSHOT, cut->targets[i].item->snapshot_id},
			&ignored);
}

/* Does as much as possible before writers are blocked. A cut that could not be
 * prepared only takes longer. */
static void prepare_mounted(struct cut *cut)
{
	for (size_t i = 0; i < cut->n; i++) {
		const struct cut_item *item = cut->targets[i].item;

		if (snapshot_cut_is_mounted(&cut->targets[i]))
			(void)pool_store_snapshot_prepare(cut->pool->store, item->volume_id,
							  item->snapshot_id, NULL);
	}
}

static int snapshot_cut_attempt(struct cut *cut, const struct target **ret_restless,
				struct cairn_err *err)
{
	int rc;

	prepare_mounted(cut);
	rc = freeze_mounted(cut, err);
	if (rc == CAIRN_UNIMPLEMENTED || rc == CAIRN_PRECONDITION)
		rc = treat_as_raw(cut, err);
	if (!rc)
		rc = cut_round(cut, ret_restless, err);
	if (!rc && cut->freeze)
		rc = pool_device_freeze_end(cairn_take(cut->freeze), err);
	pool_device_freeze_freep(&cut->freeze);
	cut->freeze = NULL;
	if (rc || *ret_restless)
		remove_cuts(cut);
	return rc;
}

int pool_cut_take(struct cut *cut, struct cairn_err *err)
{
	const struct target *restless = NULL;

	for (int try = 0; try < CUT_TRIES; try++) {
		int rc = snapshot_cut_attempt(cut, &restless, err);

		if (rc || !restless)
			return rc;
	}
	return cairn_err_set(err, CAIRN_ABORTED,
			     "volume '%s' kept changing while it was cut (%d tries); pause its "
			     "writer, or put a filesystem on it so that it can be frozen",
			     restless->item->volume_name, CUT_TRIES);
}

bool pool_cut_freezes(const struct cut *cut, size_t i)
{
	return snapshot_cut_is_mounted(&cut->targets[i]);
}

int pool_cut_new(struct pool *pool, const struct cut_item *items, size_t n, struct cut **ret,
		 struct cairn_err *err)
{
	cairn_cleanup(pool_cut_freep) struct cut *cut = cairn_calloc(1, sizeof(*cut));

	if (!cut)
		return cairn_err_nomem(err, "snapshot");
	cut->pool = pool;
	cut->atomic = pool->store->ops->cut_is_atomic;
	cut->targets = cairn_calloc(n, sizeof(*cut->targets));
	if (!cut->targets)
		return cairn_err_nomem(err, "snapshot");
	cut->n = n;
	for (size_t i = 0; i < n; i++) {
		int rc;

		cut->targets[i].item = &items[i];
		rc = snapshot_cut_examine(cut, &cut->targets[i], err);
		if (rc)
			return rc;
	}
	*ret = cairn_take(cut);
	return 0;
}

void pool_cut_free(struct cut *cut)
{
	for (size_t i = 0; i < cut->n; i++)
		pool_device_list_done(&cut->targets[i].devices);
	free(cut->targets);
	free(cut);
}
