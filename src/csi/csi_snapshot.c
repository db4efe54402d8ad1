/* SPDX-License-Identifier: Apache-2.0 */

/* Controller: snapshots. A name is unique over all volumes, so it is first claimed for its
 * volume with a note, and then given to the snapshot. */

#include "csi/csi_controller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "csi/group_note.h"
#include "csi/page.h"
#include "csi/parameters.h"
#include "csi/reply.h"
#include "csi_controller.pb-c.h"
#include "pool/catalogue/front_end_note.h"
#include "pool/catalogue/ids.h"

#define KEY_MAX     (POOL_NAME_MAX + 32)
#define FULL_MAX    (POOL_ID_MAX + POOL_NAME_MAX + 2)
#define CLAIM_TRIES 8

/* Finds the live snapshot `name` of a volume. The pool might parse an '@' in the name as
 * the end of another volume's name. */
static int find_in_volume(struct pool *pool, const char *volume_id, const char *name,
			  struct pool_snapshot *ret, struct cairn_err *err)
{
	char full[FULL_MAX];
	int rc;

	snprintf(full, sizeof(full), "%s@%s", volume_id, name);
	rc = pool_snapshot_get(pool, full, ret, err);
	if (rc == 0 && (ret->deleted || strcmp(ret->volume_id, volume_id) != 0))
		return CAIRN_NOT_FOUND;
	return rc;
}

/* Whether the volume has a snapshot of that name. Only CAIRN_NOT_FOUND means no. */
static int csi_snapshot_has_snapshot(struct pool *pool, const char *volume_id, const char *name,
				     bool *ret, struct cairn_err *err)
{
	struct pool_snapshot snapshot;
	int rc = find_in_volume(pool, volume_id, name, &snapshot, err);

	*ret = rc == 0;
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* Claims the name for the volume. Takes over another volume's claim that has no snapshot. */
static int claim_name(struct pool *pool, const char *name, const char *volume_id,
		      struct cairn_err *err)
{
	struct pool_note mine = {volume_id, strlen(volume_id)};
	char key[KEY_MAX];
	int rc = CAIRN_ABORTED;

	snprintf(key, sizeof(key), "snapshot/%s", name);
	for (int try = 0; try < CLAIM_TRIES && rc == CAIRN_ABORTED; try++) {
		cairn_auto_free char *holder = NULL;
		struct pool_note old = {0};
		bool taken = false;

		rc = pool_note_get(pool, key, &holder, &old.len, err);
		if (rc && rc != CAIRN_NOT_FOUND)
			return rc;
		old.data = holder;
		if (holder && strcmp(holder, volume_id) == 0)
			return 0;
		rc = holder ? csi_snapshot_has_snapshot(pool, holder, name, &taken, err) : 0;
		if (rc)
			return rc;
		if (taken)
			return cairn_err_set(err, CAIRN_EXISTS,
					     "snapshot '%s' exists, of another volume", name);
		rc = pool_note_change(pool, key, old, mine, err);
	}
	return rc;
}

static int csi_snapshot_check_name_elsewhere(struct csi_driver *driver, const struct pool *here,
					     const char *name, struct cairn_err *err)
{
	for (size_t i = 0; i < driver->n_pools; i++) {
		cairn_auto_free char *holder = NULL;
		struct pool *pool = driver->pools[i].pool;
		char key[KEY_MAX];
		bool taken = false;
		size_t n;
		int rc;

		if (pool == here)
			continue;
		snprintf(key, sizeof(key), "snapshot/%s", name);
		rc = pool_note_get(pool, key, &holder, &n, err);
		if (rc == CAIRN_NOT_FOUND)
			continue;
		if (!rc)
			rc = csi_snapshot_has_snapshot(pool, holder, name, &taken, err);
		if (rc)
			return rc;
		if (taken)
			return cairn_err_set(err, CAIRN_EXISTS,
					     "snapshot '%s' exists, of another volume", name);
	}
	return 0;
}

static int csi_snapshot_cut(struct csi_driver *driver, struct pool *pool, const char *volume_id,
			    const char *name, struct pool_snapshot *ret, struct cairn_err *err)
{
	struct pool_snapshot_spec spec = {.volume = volume_id, .name = name};
	int rc = claim_name(pool, name, volume_id, err);

	if (!rc)
		rc = find_in_volume(pool, volume_id, name, ret, err);
	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = pool_snapshot_create(pool, &spec, 1, ret, err);
	if (rc == CAIRN_EXISTS) /* a concurrent call with the same arguments */
		return find_in_volume(pool, volume_id, name, ret, err);
	if (!rc)
		csi_changeset_worker_add(driver->completer, pool, ret->id);
	return rc;
}

/* For a call that is repeated after the volume was deleted and its snapshot kept. */
static int find_of_deleted(struct csi_driver *driver, const char *volume_id, const char *name,
			   struct pool **ret_pool, struct pool_snapshot *ret, struct cairn_err *err)
{
	uint64_t bits;

	for (size_t i = 0; i < driver->n_pools && pool_ids_parse_volume(volume_id, &bits); i++) {
		int rc;

		*ret_pool = driver->pools[i].pool;
		rc = find_in_volume(*ret_pool, volume_id, name, ret, err);
		if (rc != CAIRN_NOT_FOUND)
			return rc;
	}
	return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no volume '%s'", volume_id);
}

static int send_snapshot(struct pool *pool, struct csi_snapshot_bundle *bundle,
			 struct cairn_buf *reply, struct cairn_err *err)
{
	Csi__V1__CreateSnapshotResponse response;
	int rc = csi_group_of(pool, bundle->snapshot.id, bundle->group, err);

	if (rc)
		return rc;
	csi_snapshot_bundle_fill(bundle);
	/* GetSnapshotResponse has the same one field. */
	csi__v1__create_snapshot_response__init(&response);
	response.snapshot = &bundle->message;
	return csi_reply(reply, &response.base, err);
}

CSI_METHOD(csi_create_snapshot)
{
	const Csi__V1__CreateSnapshotRequest *r = request;
	struct csi_snapshot_bundle bundle = {0};
	struct pool_volume volume;
	struct pool *pool;
	int rc = pool_name_check("snapshot", r->name, err); /* before it is claimed */

	if (!rc)
		rc = csi_require(r->source_volume_id, "the source volume id", err);
	if (!rc)
		rc = csi_no_parameters(r->parameters, r->n_parameters, err);
	if (rc)
		return rc;
	rc = csi_find_volume(driver, r->source_volume_id, &pool, &volume, err);
	if (!rc)
		rc = csi_snapshot_check_name_elsewhere(driver, pool, r->name, err);
	if (!rc)
		rc = csi_snapshot_cut(driver, pool, volume.id, r->name, &bundle.snapshot, err);
	else if (rc == CAIRN_NOT_FOUND)
		rc = find_of_deleted(driver, r->source_volume_id, r->name, &pool, &bundle.snapshot,
				     err);
	return rc ? rc : send_snapshot(pool, &bundle, reply, err);
}

/* Releases the name of a deleted snapshot, unless another snapshot has it. */
static int drop_claim(struct pool *pool, const struct pool_snapshot *gone, struct cairn_err *err)
{
	cairn_auto_free char *holder = NULL;
	struct pool_note old = {0};
	char key[KEY_MAX];
	bool taken = false;
	int rc;

	snprintf(key, sizeof(key), "snapshot/%s", gone->name);
	rc = pool_note_get(pool, key, &holder, &old.len, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	if (strcmp(holder, gone->volume_id) != 0)
		return 0;
	rc = csi_snapshot_has_snapshot(pool, gone->volume_id, gone->name, &taken, err);
	if (rc || taken)
		return rc;
	old.data = holder;
	rc = pool_note_change(pool, key, old, (struct pool_note){0}, err);
	return rc == CAIRN_ABORTED ? 0 : rc; /* claimed again meanwhile */
}

/* A tombstone is left by an interrupted call: only its name must still be released. */
static int csi_snapshot_delete_found(struct pool *pool, const struct pool_snapshot *snapshot,
				     struct cairn_err *err)
{
	char group[POOL_ID_MAX + 1];
	int rc = 0;

	if (!snapshot->deleted) {
		rc = csi_group_of(pool, snapshot->id, group, err);
		if (!rc && group[0])
			rc = cairn_err_set(err, CAIRN_INVALID,
					   "snapshot '%s' is part of group '%s' and goes with it",
					   snapshot->id, group);
		if (!rc)
			rc = pool_snapshot_delete(pool, snapshot->id, err);
	}
	return rc ? rc : drop_claim(pool, snapshot, err);
}

CSI_METHOD(csi_delete_snapshot)
{
	const Csi__V1__DeleteSnapshotRequest *r = request;
	Csi__V1__DeleteSnapshotResponse response;
	struct pool_snapshot snapshot;
	struct pool *pool;
	int rc = csi_require(r->snapshot_id, "the snapshot id", err);

	if (rc)
		return rc;
	rc = csi_find_base(driver, r->snapshot_id, &pool, &snapshot, err);
	if (rc == CAIRN_PRECONDITION)
		rc = CAIRN_NOT_FOUND; /* deleted long ago and expired */
	if (!rc)
		rc = csi_snapshot_delete_found(pool, &snapshot, err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	csi__v1__delete_snapshot_response__init(&response);
	return csi_reply(reply, &response.base, err);
}

CSI_METHOD(csi_get_snapshot)
{
	const Csi__V1__GetSnapshotRequest *r = request;
	struct csi_snapshot_bundle bundle = {0};
	struct pool *pool;
	int rc = csi_find_snapshot(driver, r->snapshot_id, &pool, &bundle.snapshot, err);

	return rc ? rc : send_snapshot(pool, &bundle, reply, err);
}
