/* SPDX-License-Identifier: Apache-2.0 */

/* csi.v1.GroupController: snapshots of several volumes at one point in time. */

#include "csi/csi_controller.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "block/checksum.h"
#include "csi/group_note.h"
#include "csi/parameters.h"
#include "csi/reply.h"
#include "csi_group.pb-c.h"
#include "pool/catalogue/ids.h"
#include "proto/message.h"

static CSI_METHOD(get_capabilities)
{
	Csi__V1__GroupControllerGetCapabilitiesResponse response;
	Csi__V1__GroupControllerServiceCapability capability;
	Csi__V1__GroupControllerServiceCapability__RPC rpc;
	Csi__V1__GroupControllerServiceCapability *list[] = {&capability};

	(void)driver;
	(void)request;
	csi__v1__group_controller_get_capabilities_response__init(&response);
	csi__v1__group_controller_service_capability__init(&capability);
	csi__v1__group_controller_service_capability__rpc__init(&rpc);
	rpc.type = 1; /* CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT */
	capability.type_case = CSI__V1__GROUP_CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC;
	capability.rpc = &rpc;
	response.capabilities = list;
	response.n_capabilities = 1;
	return csi_reply(reply, &response.base, err);
}

/* Packs the group; members that are missing were deleted individually. */
static int send_group(struct pool *pool, const struct csi_group *group, struct cairn_buf *reply,
		      struct cairn_err *err)
{
	cairn_auto_free struct csi_snapshot_bundle *bundles =
		cairn_calloc(group->n, sizeof(*bundles));
	cairn_auto_free Csi__V1__Snapshot **list = cairn_calloc(group->n, sizeof(*list));
	Csi__V1__GetVolumeGroupSnapshotResponse response;
	Csi__V1__VolumeGroupSnapshot message;
	Google__Protobuf__Timestamp created;

	if (!bundles || !list)
		return cairn_err_nomem(err, "group");
	csi__v1__get_volume_group_snapshot_response__init(&response);
	csi__v1__volume_group_snapshot__init(&message);
	for (size_t i = 0; i < group->n; i++) {
		struct csi_snapshot_bundle *bundle = &bundles[message.n_snapshots];
		int rc = pool_snapshot_get(pool, group->members[i], &bundle->snapshot, err);

		if (rc && rc != CAIRN_NOT_FOUND && rc != CAIRN_PRECONDITION)
			return rc;
		if (rc || bundle->snapshot.deleted)
			continue;
		memcpy(bundle->group, group->id, sizeof(bundle->group));
		csi_snapshot_bundle_fill(bundle);
		list[message.n_snapshots++] = &bundle->message;
	}
	if (message.n_snapshots == 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no snapshot of group '%s' is left",
				     group->id);
	csi_timestamp_fill(&created, bundles[0].snapshot.created_ns);
	message.group_snapshot_id = proto_text(group->id);
	message.snapshots = list;
	message.creation_time = &created;
	message.ready_to_use = true;
	response.group_snapshot = &message;
	return csi_reply(reply, &response.base, err);
}

/* An existing group of that name must have exactly these volumes. */
static int csi_group_check_same(const struct csi_group *group, char *const *volumes, size_t n,
				struct cairn_err *err)
{
	bool same = group->n == n;

	for (size_t i = 0; same && i < group->n; i++) {
		char volume[POOL_ID_MAX + 1] = "";
		uint64_t bits;
		uint64_t number;

		/* A deleted member's id still contains its volume. */
		if (pool_ids_parse_snapshot(group->members[i], &bits, &number))
			pool_ids_format_volume(bits, volume);
		same = false;
		for (size_t j = 0; j < n; j++)
			same = same || strcmp(volume, volumes[j]) == 0;
	}
	if (!same)
		return cairn_err_set(err, CAIRN_EXISTS,
				     "a group of that name exists, of other volumes");
	return 0;
}

/* Members are named after the group, so that a call repeated after a crash finds
 * the cut instead of making another. */
static int csi_group_cut_group(struct csi_driver *driver, struct pool *pool, const char *name,
			       char *const *volumes, size_t n, struct csi_group *ret,
			       struct cairn_err *err)
{
	cairn_auto_free struct pool_snapshot_spec *specs = cairn_calloc(n, sizeof(*specs));
	cairn_auto_free struct pool_snapshot *made = cairn_calloc(n, sizeof(*made));
	char member[32];
	size_t found = 0;
	int rc = 0;

	if (!specs || !made)
		return cairn_err_nomem(err, "group");
	snprintf(member, sizeof(member), "group %016" PRIx64, block_checksum(name, strlen(name)));
	for (size_t i = 0; i < n && !rc; i++) {
		char full[POOL_ID_MAX + POOL_NAME_MAX + 2];

		specs[i] = (struct pool_snapshot_spec){.volume = volumes[i], .name = member};
		snprintf(full, sizeof(full), "%s@%s", volumes[i], member);
		rc = pool_snapshot_get(pool, full, &made[i], err);
		if (rc == 0 && !made[i].deleted)
			found++;
		rc = rc == CAIRN_NOT_FOUND ? 0 : rc;
	}
	if (!rc && found != n)
		rc = pool_snapshot_create(pool, specs, n, made, err);
	for (size_t i = 0; i < n && !rc; i++) {
		memcpy(ret->members[i], made[i].id, sizeof(ret->members[i]));
		csi_changeset_worker_add(driver->completer, pool, made[i].id);
	}
	ret->n = n;
	return rc;
}

static int create_group(struct csi_driver *driver, struct pool *pool,
			const Csi__V1__CreateVolumeGroupSnapshotRequest *r, struct csi_group *group,
			struct cairn_err *err)
{
	char bits[17];
	int rc = csi_group_by_name(pool, r->name, group, err);

	if (rc == 0)
		return csi_group_check_same(group, r->source_volume_ids, r->n_source_volume_ids,
					    err);
	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = csi_group_cut_group(driver, pool, r->name, r->source_volume_ids,
				 r->n_source_volume_ids, group, err);
	if (!rc)
		rc = cairn_random_hex(bits, 8, err);
	if (rc)
		return rc;
	snprintf(group->id, sizeof(group->id), "group-%s", bits);
	return csi_group_put(pool, r->name, group, err);
}

/* The error for a volume that this driver does not have. Where each node has a driver of
 * its own, another node may have it: if this one has any of the others, say which. */
static int csi_group_not_here(struct csi_driver *driver, char **ids, size_t n, size_t missing,
			      struct cairn_err *err)
{
	for (size_t i = 0; driver->topology_key && i < n; i++) {
		struct pool_volume volume;
		struct pool *pool;

		if (csi_find_volume(driver, ids[i], &pool, &volume, NULL) == 0)
			return cairn_err_set(
				err, CAIRN_PRECONDITION,
				"volume '%.64s' is on node '%.64s' and '%.64s' is not: the volumes of "
				"a group snapshot must be on one node",
				ids[i], driver->node_id, ids[missing]);
	}
	return CAIRN_NOT_FOUND;
}

/* The pool that has all of the volumes. */
static int csi_group_find_pool(struct csi_driver *driver, char **ids, size_t n,
			       struct pool **ret_pool, struct cairn_err *err)
{
	struct pool_volume volume;

	for (size_t i = 0; i < n; i++) {
		struct pool *own = NULL;
		int rc = csi_find_volume(driver, ids[i], &own, &volume, err);

		if (rc == CAIRN_NOT_FOUND)
			return csi_group_not_here(driver, ids, n, i, err);
		if (rc)
			return rc;
		if (*ret_pool && own != *ret_pool)
			return cairn_err_set(
				err, CAIRN_PRECONDITION,
				"volumes of several pools cannot be in one group snapshot");
		*ret_pool = own;
	}
	return 0;
}

/* A group's name is unique over all pools. */
static int csi_group_check_name_elsewhere(struct csi_driver *driver, const struct pool *here,
					  const char *name, struct cairn_err *err)
{
	for (size_t i = 0; i < driver->n_pools; i++) {
		struct csi_group group;
		int rc;

		if (driver->pools[i].pool == here)
			continue;
		rc = csi_group_by_name(driver->pools[i].pool, name, &group, err);
		if (rc == 0)
			return cairn_err_set(err, CAIRN_EXISTS,
					     "a group of that name exists, of other volumes");
		if (rc != CAIRN_NOT_FOUND)
			return rc;
	}
	return 0;
}

static CSI_METHOD(create_group_snapshot)
{
	const Csi__V1__CreateVolumeGroupSnapshotRequest *r = request;
	csi_auto_turn struct csi_op_lock turn = {0};
	struct csi_group group = {.n = 0};
	struct pool *pool = NULL;
	int rc = pool_name_check("group", r->name, err); /* the name is one line of the note */

	if (!rc)
		rc = csi_no_parameters(r->parameters, r->n_parameters, err);
	if (!rc && (r->n_source_volume_ids == 0 || r->n_source_volume_ids > POOL_GROUP_MAX))
		rc = cairn_err_set(err, CAIRN_INVALID, "a group has 1 to %u volumes",
				   POOL_GROUP_MAX);
	if (!rc)
		rc = csi_group_find_pool(driver, r->source_volume_ids, r->n_source_volume_ids,
					 &pool, err);
	if (!rc)
		rc = csi_op_lock_take(&driver->turns, r->name, &turn, err);
	if (!rc)
		rc = csi_group_check_name_elsewhere(driver, pool, r->name, err);
	if (!rc)
		rc = create_group(driver, pool, r, &group, err);
	return rc ? rc : send_group(pool, &group, reply, err);
}

static int find_group(struct csi_driver *driver, const char *id, struct pool **ret_pool,
		      struct csi_group *ret, struct cairn_err *err)
{
	for (size_t i = 0; i < driver->n_pools; i++) {
		int rc = csi_group_by_id(driver->pools[i].pool, id, ret, err);

		*ret_pool = driver->pools[i].pool;
		if (rc != CAIRN_NOT_FOUND)
			return rc;
	}
	return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no group '%.64s'", id);
}

/* If the caller lists the members, they must be the group's, each once. */
static int check_members(const struct csi_group *group, char *const *ids, size_t n,
			 struct cairn_err *err)
{
	bool same = n == 0 || n == group->n;

	for (size_t i = 0; same && n > 0 && i < group->n; i++) {
		same = false;
		for (size_t j = 0; j < n; j++)
			same = same || strcmp(ids[j], group->members[i]) == 0;
	}
	if (!same)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the snapshots named are not those of the group");
	return 0;
}

/* A member that was deleted individually is missing, a tombstone, or expired. */
static int delete_member(struct pool *pool, const char *id, struct cairn_err *err)
{
	struct pool_snapshot snapshot;
	int rc = pool_snapshot_get(pool, id, &snapshot, err);

	if (rc == CAIRN_NOT_FOUND || rc == CAIRN_PRECONDITION)
		return 0;
	if (rc || snapshot.deleted)
		return rc;
	rc = pool_snapshot_delete(pool, id, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static CSI_METHOD(delete_group_snapshot)
{
	const Csi__V1__DeleteVolumeGroupSnapshotRequest *r = request;
	Csi__V1__DeleteVolumeGroupSnapshotResponse response;
	struct csi_group group = {.n = 0};
	struct pool *pool;
	int rc = csi_require(r->group_snapshot_id, "the group snapshot id", err);

	if (rc)
		return rc;
	rc = find_group(driver, r->group_snapshot_id, &pool, &group, err);
	if (!rc)
		rc = check_members(&group, r->snapshot_ids, r->n_snapshot_ids, err);
	for (size_t i = 0; i < group.n && !rc; i++) {
		rc = delete_member(pool, group.members[i], err);
	}
	if (!rc)
		rc = csi_group_drop(pool, &group, err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	csi__v1__delete_volume_group_snapshot_response__init(&response);
	return csi_reply(reply, &response.base, err);
}

static CSI_METHOD(get_group_snapshot)
{
	const Csi__V1__GetVolumeGroupSnapshotRequest *r = request;
	struct csi_group group;
	struct pool *pool;
	int rc = csi_require(r->group_snapshot_id, "the group snapshot id", err);

	if (!rc)
		rc = find_group(driver, r->group_snapshot_id, &pool, &group, err);
	if (!rc)
		rc = check_members(&group, r->snapshot_ids, r->n_snapshot_ids, err);
	return rc ? rc : send_group(pool, &group, reply, err);
}

#define METHOD(name, request, run)                                                              \
	{                                                                                       \
		"/csi.v1.GroupController/" name, &csi__v1__##request##_request__descriptor, run \
	}

const struct csi_unary csi_group_methods[] = {
	METHOD("GroupControllerGetCapabilities", group_controller_get_capabilities,
	       get_capabilities),
	METHOD("CreateVolumeGroupSnapshot", create_volume_group_snapshot, create_group_snapshot),
	METHOD("DeleteVolumeGroupSnapshot", delete_volume_group_snapshot, delete_group_snapshot),
	METHOD("GetVolumeGroupSnapshot", get_volume_group_snapshot, get_group_snapshot),
};
const size_t csi_group_n = sizeof(csi_group_methods) / sizeof(csi_group_methods[0]);
