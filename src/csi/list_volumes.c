/* SPDX-License-Identifier: Apache-2.0 */

/* Controller.ListVolumes and ControllerGetVolume. A page token is the index of the pool
 * and the id after which the next page begins. */

#include "csi/csi_controller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "csi/page.h"
#include "csi/published.h"
#include "csi/reply.h"
#include "csi_controller.pb-c.h"
#include "proto/message.h"

struct item {
	struct csi_volume_bundle bundle;
	struct pool_condition known;
	Csi__V1__VolumeCondition condition;
	char *nodes[1];
	Csi__V1__ListVolumesResponse__VolumeStatus status;
	Csi__V1__ListVolumesResponse__Entry entry;
};

struct listing {
	struct csi_driver *driver;
	struct pool *pool;
	struct csi_page page;
};

/* A volume that was deleted since it was listed is not damaged. */
static int look_at_condition(struct listing *l, struct item *item, struct cairn_err *err)
{
	int rc = pool_volume_health(l->pool, item->bundle.volume.id, &item->known, err);

	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int fill_item(struct listing *l, const struct pool_volume *volume, struct item *item,
		     struct cairn_err *err)
{
	struct csi_publication publication;
	int rc;

	item->bundle.volume = *volume;
	rc = csi_attributes_get(l->pool, volume->id, &item->bundle.attributes, err);
	if (!rc)
		rc = csi_published_get(l->pool, volume->id, &publication, err);
	if (!rc)
		rc = look_at_condition(l, item, err);
	if (rc)
		return rc;
	csi_volume_bundle_fill(l->driver, &item->bundle);
	csi_condition_fill(&item->condition, &item->known);
	csi__v1__list_volumes_response__volume_status__init(&item->status);
	csi__v1__list_volumes_response__entry__init(&item->entry);
	item->nodes[0] = l->driver->node_id;
	item->status.published_node_ids = item->nodes;
	item->status.n_published_node_ids = publication.published ? 1 : 0;
	item->status.volume_condition = &item->condition;
	item->entry.volume = &item->bundle.message;
	item->entry.status = &item->status;
	return 0;
}

static int list_volumes_list_one(void *arg, const struct pool_volume *volume, struct cairn_err *err)
{
	struct listing *l = arg;
	struct item *item;

	if (csi_page_is_full(&l->page))
		return 1;
	item = csi_page_add_item(&l->page, volume->id, sizeof(*item));
	if (!item)
		return cairn_err_nomem(err, "listing");
	return fill_item(l, volume, item, err);
}

static int list_volumes_send_page(const struct listing *l, struct cairn_buf *reply,
				  struct cairn_err *err)
{
	cairn_auto_free Csi__V1__ListVolumesResponse__Entry **entries =
		csi_page_entries(&l->page, offsetof(struct item, entry));
	Csi__V1__ListVolumesResponse response;

	if (!entries)
		return cairn_err_nomem(err, "listing");
	csi__v1__list_volumes_response__init(&response);
	response.entries = entries;
	response.n_entries = l->page.n;
	response.next_token = proto_text(l->page.next_token);
	return csi_reply(reply, &response.base, err);
}

CSI_METHOD(csi_list_volumes)
{
	const Csi__V1__ListVolumesRequest *r = request;
	struct listing l = {.driver = driver};
	int rc = csi_page_begin(&l.page, CSI_PAGE_VOLUMES, r->max_entries, r->starting_token,
				driver->n_pools, err);

	if (rc)
		return rc;
	while (!rc && csi_page_next_pool(&l.page)) {
		l.pool = driver->pools[l.page.pool].pool;
		rc = pool_volume_list(l.pool, l.page.after, list_volumes_list_one, &l, err);
	}
	if (!rc)
		rc = list_volumes_send_page(&l, reply, err);
	csi_page_done(&l.page);
	return rc;
}

CSI_METHOD(csi_get_volume)
{
	const Csi__V1__ControllerGetVolumeRequest *r = request;
	Csi__V1__ControllerGetVolumeResponse response;
	Csi__V1__ControllerGetVolumeResponse__VolumeStatus status;
	struct listing l = {.driver = driver};
	struct item item = {0};
	struct pool_volume volume;
	int rc = csi_find_volume(driver, r->volume_id, &l.pool, &volume, err);

	if (!rc)
		rc = fill_item(&l, &volume, &item, err);
	if (rc)
		return rc;
	csi__v1__controller_get_volume_response__init(&response);
	csi__v1__controller_get_volume_response__volume_status__init(&status);
	status.published_node_ids = item.status.published_node_ids;
	status.n_published_node_ids = item.status.n_published_node_ids;
	status.volume_condition = &item.condition;
	response.volume = &item.bundle.message;
	response.status = &status;
	return csi_reply(reply, &response.base, err);
}
