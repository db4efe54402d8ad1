/* SPDX-License-Identifier: Apache-2.0 */

/* Controller: delete, validate, capacity, expand and modify. */

#include "csi/csi_controller.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "csi/attributes.h"
#include "csi/capability.h"
#include "csi/parameters.h"
#include "csi/publish_target.h"
#include "csi/published.h"
#include "csi/reply.h"
#include "csi/size.h"
#include "csi/staging.h"
#include "csi_controller.pb-c.h"

/* A volume whose pod is gone may still be attached for a moment: Kubernetes deletes the
 * volume beside the end of its staging. */
#define DETACH_WAIT_MS 2000U
#define DETACH_STEP_MS 100U

/* *ret_attached is set if the deletion failed for that reason. */
static int csi_volume_delete_found(struct pool *pool, const char *id, bool *ret_attached,
				   struct cairn_err *err)
{
	struct csi_publication publication;
	int rc = csi_published_get(pool, id, &publication, err);

	if (rc)
		return rc;
	if (publication.published)
		return cairn_err_set(err, CAIRN_PRECONDITION, "volume '%s' is published to a node",
				     id);
	/* Snapshots do not depend on their volume: they remain and are listed. */
	rc = pool_volume_delete(pool, id, POOL_DELETE_KEEP_SNAPSHOTS, err);
	*ret_attached = rc == CAIRN_PRECONDITION;
	return rc;
}

/* Runs after the deletion of the volume, which may fail; also for a repeated call after a
 * crash between the two. */
static int drop_notes(struct csi_driver *driver, const char *id, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < driver->n_pools && !rc && strlen(id) <= POOL_ID_MAX; i++) {
		rc = csi_attributes_drop(driver->pools[i].pool, id, err);
		if (!rc)
			rc = csi_targets_drop(driver->pools[i].pool, id, err);
		if (!rc)
			rc = csi_staging_end(driver->pools[i].pool, id, err);
	}
	return rc;
}

static int csi_volume_delete_once(struct csi_driver *driver, const char *id, bool *ret_attached,
				  struct cairn_err *err)
{
	csi_auto_turn struct csi_op_lock turn = {0};
	struct pool_volume volume;
	struct pool *pool;
	int rc = csi_take_volume(driver, id, &turn, &pool, &volume, err);

	if (!rc)
		rc = csi_volume_delete_found(pool, volume.id, ret_attached, err);
	if (!rc || rc == CAIRN_NOT_FOUND)
		rc = drop_notes(driver, id, err);
	return rc;
}

CSI_METHOD(csi_delete_volume)
{
	const Csi__V1__DeleteVolumeRequest *r = request;
	Csi__V1__DeleteVolumeResponse response;
	bool attached = false;
	int rc = csi_volume_delete_once(driver, r->volume_id, &attached, err);

	/* The turn is given up in between, for the call that detaches. */
	for (unsigned ms = 0; rc && attached && ms < DETACH_WAIT_MS; ms += DETACH_STEP_MS) {
		cairn_sleep_ms(DETACH_STEP_MS);
		attached = false;
		rc = csi_volume_delete_once(driver, r->volume_id, &attached, err);
		attached = attached || rc == CAIRN_ABORTED;
	}
	if (rc)
		return rc;
	csi__v1__delete_volume_response__init(&response);
	return csi_reply(reply, &response.base, err);
}

CSI_METHOD(csi_validate_capabilities)
{
	const Csi__V1__ValidateVolumeCapabilitiesRequest *r = request;
	Csi__V1__ValidateVolumeCapabilitiesResponse response;
	Csi__V1__ValidateVolumeCapabilitiesResponse__Confirmed confirmed;
	struct pool_volume volume;
	struct pool *pool;
	struct cairn_err why = {0};
	int rc = csi_require(r->volume_id, "the volume id", err);

	if (!rc && r->n_volume_capabilities == 0)
		rc = cairn_err_set(err, CAIRN_INVALID, "the volume capabilities are missing");
	if (!rc)
		rc = csi_find_volume(driver, r->volume_id, &pool, &volume, err);
	if (rc)
		return rc;
	csi__v1__validate_volume_capabilities_response__init(&response);
	if (csi_capabilities_check(r->volume_capabilities, r->n_volume_capabilities, &why) != 0) {
		response.message = why.msg;
		return csi_reply(reply, &response.base, err);
	}
	csi__v1__validate_volume_capabilities_response__confirmed__init(&confirmed);
	confirmed.volume_capabilities = r->volume_capabilities;
	confirmed.n_volume_capabilities = r->n_volume_capabilities;
	response.confirmed = &confirmed;
	return csi_reply(reply, &response.base, err);
}

/* The free space of the pool for a volume with these parameters; 0 for a topology that
 * cannot reach it. */
static int get_free(struct csi_driver *driver, const char *pool_name,
		    const Csi__V1__Topology *place, uint64_t *ret, struct cairn_err *err)
{
	*ret = 0;
	if (place && place->n_segments > 0 && driver->topology_key &&
	    !csi_topology_is_here(driver, place))
		return 0;
	for (size_t i = 0; i < driver->n_pools; i++) {
		struct pool_space space;
		int rc;

		if (pool_name ? strcmp(driver->pools[i].name, pool_name) != 0 : i > 0)
			continue;
		rc = pool_space_get(driver->pools[i].pool, &space, err);
		*ret = rc ? 0 : space.free_bytes;
		return rc;
	}
	return cairn_err_set(err, CAIRN_INVALID, "there is no pool '%s'", pool_name);
}

/* Pools are thin and accept volumes larger than their free space. A scheduler that chooses
 * among nodes looks only at this size, so with topology it is the free space. */
static uint64_t csi_volume_largest(const struct csi_driver *driver, uint64_t free_bytes)
{
	if (driver->topology_key && free_bytes < POOL_VOLUME_SIZE_MAX)
		return free_bytes;
	return POOL_VOLUME_SIZE_MAX;
}

CSI_METHOD(csi_get_capacity)
{
	const Csi__V1__GetCapacityRequest *r = request;
	Csi__V1__GetCapacityResponse response;
	Google__Protobuf__Int64Value largest;
	struct csi_entry entries[CSI_ENTRIES_MAX];
	const char *pool_name;
	uint64_t free_bytes;
	int rc = csi_entries(r->parameters, r->n_parameters, entries, err);

	if (!rc)
		rc = csi_parameters_parse(entries, r->n_parameters, &pool_name, err);
	if (!rc)
		rc = get_free(driver, pool_name, r->accessible_topology, &free_bytes, err);
	if (rc)
		return rc;
	csi__v1__get_capacity_response__init(&response);
	google__protobuf__int64_value__init(&largest);
	largest.value = (int64_t)csi_volume_largest(driver, free_bytes);
	response.available_capacity = (int64_t)free_bytes;
	response.maximum_volume_size = &largest;
	return csi_reply(reply, &response.base, err);
}

int csi_volume_grow(struct pool *pool, const struct csi_size_range *range,
		    struct pool_volume *volume, struct cairn_err *err)
{
	uint64_t size;
	int rc;

	if (csi_size_fits(range, volume->size))
		return 0;
	rc = csi_size_choose(range, 0, &size, err);
	if (!rc && size < volume->size)
		rc = cairn_err_set(err, CAIRN_RANGE, "a volume cannot shrink");
	return rc ? rc : pool_volume_expand(pool, volume->id, size, volume, err);
}

CSI_METHOD(csi_expand_volume)
{
	const Csi__V1__ControllerExpandVolumeRequest *r = request;
	Csi__V1__ControllerExpandVolumeResponse response;
	csi_auto_turn struct csi_op_lock turn = {0};
	struct csi_size_range range;
	struct pool_volume volume;
	struct pool *pool;
	int rc = csi_require(r->volume_id, "the volume id", err);

	if (!rc && !r->capacity_range)
		rc = cairn_err_set(err, CAIRN_INVALID, "the capacity range is missing");
	if (!rc)
		rc = csi_size_range(r->capacity_range, &range, err);
	if (!rc) /* operations that depend on the old size come first */
		rc = csi_take_volume(driver, r->volume_id, &turn, &pool, &volume, err);
	if (rc)
		return rc;
	rc = csi_volume_grow(pool, &range, &volume, err);
	if (rc)
		return rc;
	csi__v1__controller_expand_volume_response__init(&response);
	response.capacity_bytes = (int64_t)volume.size;
	/* A filesystem on the volume must be grown too. */
	response.node_expansion_required =
		!r->volume_capability || !csi_capability_is_block(r->volume_capability);
	return csi_reply(reply, &response.base, err);
}

CSI_METHOD(csi_modify_volume)
{
	const Csi__V1__ControllerModifyVolumeRequest *r = request;
	Csi__V1__ControllerModifyVolumeResponse response;
	struct csi_entry entries[CSI_ENTRIES_MAX];
	struct pool_volume_settings settings;
	struct pool_volume volume;
	struct pool *pool;
	int rc = csi_require(r->volume_id, "the volume id", err);

	if (!rc)
		rc = csi_find_volume(driver, r->volume_id, &pool, &volume, err);
	if (!rc)
		rc = csi_entries(r->mutable_parameters, r->n_mutable_parameters, entries, err);
	if (!rc)
		rc = csi_mutable_parse(entries, r->n_mutable_parameters, &settings, err);
	if (!rc)
		rc = pool_volume_modify(pool, volume.id, &settings, &volume, err);
	if (rc)
		return rc;
	csi__v1__controller_modify_volume_response__init(&response);
	return csi_reply(reply, &response.base, err);
}
