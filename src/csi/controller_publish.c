/* SPDX-License-Identifier: Apache-2.0 */

/* Controller.ControllerPublishVolume and ControllerUnpublishVolume. The node attaches the
 * device; publishing only records the permission. */

#include "csi/csi_controller.h"

#include <string.h>

#include "base/err.h"
#include "csi/capability.h"
#include "csi/published.h"
#include "csi_controller.pb-c.h"

static int check_node(const struct csi_driver *driver, const char *node_id, struct cairn_err *err)
{
	if (strcmp(node_id, driver->node_id) != 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no node '%s' here", node_id);
	return 0;
}

/* Counts after the volume was recorded, so that concurrent calls cannot exceed the limit
 * together. */
static int check_limit(struct csi_driver *driver, struct cairn_err *err)
{
	uint64_t total = 0;

	if (driver->volumes_max == 0)
		return 0;
	for (size_t i = 0; i < driver->n_pools; i++) {
		uint64_t n;
		int rc = csi_published_count(driver->pools[i].pool, &n, err);

		if (rc)
			return rc;
		total += n;
	}
	if (total > driver->volumes_max)
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "node '%s' has as many volumes as it may have (%llu)",
				     driver->node_id, (unsigned long long)driver->volumes_max);
	return 0;
}

static int controller_publish_publish(struct csi_driver *driver,
				      const Csi__V1__ControllerPublishVolumeRequest *r,
				      struct cairn_err *err)
{
	struct csi_publication want = {
		.published = true,
		.read_only = r->readonly || csi_capability_is_read_only(r->volume_capability),
		.mode = (int)r->volume_capability->access_mode->mode,
		.block = csi_capability_is_block(r->volume_capability),
	};
	csi_auto_turn struct csi_op_lock turn = {0};
	struct csi_publication is;
	struct pool_volume volume;
	struct pool *pool;
	int rc = csi_take_volume(driver, r->volume_id, &turn, &pool, &volume, err);

	if (!rc)
		rc = check_node(driver, r->node_id, err);
	if (!rc)
		rc = csi_published_get(pool, volume.id, &is, err);
	if (rc)
		return rc;
	if (is.published &&
	    (is.read_only != want.read_only || is.mode != want.mode || is.block != want.block))
		return cairn_err_set(err, CAIRN_EXISTS,
				     "volume '%s' is published with another capability",
				     r->volume_id);
	if (is.published)
		return 0;
	rc = csi_published_put(pool, volume.id, &want, err);
	if (rc)
		return rc;
	rc = check_limit(driver, err);
	if (rc)
		(void)csi_published_drop(pool, volume.id, NULL);
	return rc;
}

CSI_METHOD(csi_publish_volume)
{
	const Csi__V1__ControllerPublishVolumeRequest *r = request;
	Csi__V1__ControllerPublishVolumeResponse response;
	int rc = csi_require(r->volume_id, "the volume id", err);

	if (!rc)
		rc = csi_require(r->node_id, "the node id", err);
	if (!rc)
		rc = csi_capability_check(r->volume_capability, err);
	if (!rc)
		rc = controller_publish_publish(driver, r, err);
	csi__v1__controller_publish_volume_response__init(&response);
	return rc ? rc : csi_reply(reply, &response.base, err);
}

CSI_METHOD(csi_unpublish_volume)
{
	const Csi__V1__ControllerUnpublishVolumeRequest *r = request;
	Csi__V1__ControllerUnpublishVolumeResponse response;
	csi_auto_turn struct csi_op_lock turn = {0};
	struct pool_volume volume;
	struct pool *pool;
	int rc = csi_take_volume(driver, r->volume_id, &turn, &pool, &volume, err);

	/* A volume that does not exist is not published. */
	if (rc == 0 && (!r->node_id[0] || strcmp(r->node_id, driver->node_id) == 0))
		rc = csi_published_drop(pool, volume.id, err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	csi__v1__controller_unpublish_volume_response__init(&response);
	return csi_reply(reply, &response.base, err);
}
