/* SPDX-License-Identifier: Apache-2.0 */

/* Controller.ListSnapshots: all snapshots, those of one volume, or one. */

#include "csi/csi_controller.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "csi/group_note.h"
#include "csi/page.h"
#include "csi/reply.h"
#include "csi_controller.pb-c.h"
#include "proto/message.h"

struct item {
	struct csi_snapshot_bundle bundle;
	Csi__V1__ListSnapshotsResponse__Entry entry;
};

struct listing {
	struct pool *pool;
	struct csi_page page;
};

static int list_snapshots_list_one(void *arg, const struct pool_snapshot *snapshot,
				   struct cairn_err *err)
{
	struct listing *l = arg;
	struct item *item;
	int rc;

	if (csi_page_is_full(&l->page))
		return 1;
	item = csi_page_add_item(&l->page, snapshot->id, sizeof(*item));
	if (!item)
		return cairn_err_nomem(err, "listing");
	item->bundle.snapshot = *snapshot;
	rc = csi_group_of(l->pool, snapshot->id, item->bundle.group, err);
	if (rc)
		return rc;
	csi_snapshot_bundle_fill(&item->bundle);
	csi__v1__list_snapshots_response__entry__init(&item->entry);
	item->entry.snapshot = &item->bundle.message;
	return 0;
}

/* Returns one snapshot by id, or nothing if it is not of the given volume. */
static int list_single(struct csi_driver *driver, struct listing *l, const char *id,
		       const char *volume_id, struct cairn_err *err)
{
	struct pool_snapshot snapshot;
	int rc = csi_find_snapshot(driver, id, &l->pool, &snapshot, err);

	if (rc == CAIRN_NOT_FOUND ||
	    (!rc && volume_id[0] && strcmp(snapshot.volume_id, volume_id) != 0))
		return 0;
	return rc ? rc : list_snapshots_list_one(l, &snapshot, err);
}

static int list_pools(struct csi_driver *driver, struct listing *l, const char *volume_id,
		      struct cairn_err *err)
{
	int rc = 0;

	while (!rc && csi_page_next_pool(&l->page)) {
		struct pool_snapshot_list_spec spec = {
			.volume = volume_id[0] ? volume_id : NULL,
			.after = l->page.after[0] ? l->page.after : NULL,
		};

		l->pool = driver->pools[l->page.pool].pool;
		rc = pool_snapshot_list(l->pool, &spec, list_snapshots_list_one, l, err);
		if (rc == CAIRN_NOT_FOUND)
			rc = 0; /* the volume is not in this pool */
	}
	return rc;
}

static int list_snapshots_send_page(const struct listing *l, struct cairn_buf *reply,
				    struct cairn_err *err)
{
	cairn_auto_free Csi__V1__ListSnapshotsResponse__Entry **entries =
		csi_page_entries(&l->page, offsetof(struct item, entry));
	Csi__V1__ListSnapshotsResponse response;

	if (!entries)
		return cairn_err_nomem(err, "listing");
	csi__v1__list_snapshots_response__init(&response);
	response.entries = entries;
	response.n_entries = l->page.n;
	response.next_token = proto_text(l->page.next_token);
	return csi_reply(reply, &response.base, err);
}

CSI_METHOD(csi_list_snapshots)
{
	const Csi__V1__ListSnapshotsRequest *r = request;
	struct listing l = {.pool = NULL};
	int rc = csi_page_begin(&l.page, CSI_PAGE_SNAPSHOTS, r->max_entries, r->starting_token,
				driver->n_pools, err);

	if (rc)
		return rc;
	rc = r->snapshot_id[0] ? list_single(driver, &l, r->snapshot_id, r->source_volume_id, err)
			       : list_pools(driver, &l, r->source_volume_id, err);
	if (!rc)
		rc = list_snapshots_send_page(&l, reply, err);
	csi_page_done(&l.page);
	return rc;
}
