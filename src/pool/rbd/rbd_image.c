/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "pool/catalogue/ids.h"
#include "pool/rbd/rbd_cluster.h"

/* Rollbacks of one volume whose snapshots all stay. */
#define RETIRED_MAX 10000U

/* Chains of clones. */
#define PARENTS_MAX 64U

void rbd_image_done(struct rbd_image_handle *handle)
{
	if (handle->image)
		(void)handle->api->rbd_close(handle->image);
	handle->image = NULL;
}

int rbd_image_open(struct rbd_cluster *cluster, const char *name, bool writable,
		   struct rbd_image_handle *ret, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(cluster);
	rados_ioctx_t io = rbd_cluster_io(cluster);
	struct rbd_image_handle handle = {.api = api};
	int rc = writable ? api->rbd_open(io, name, &handle.image, NULL)
			  : api->rbd_open_read_only(io, name, &handle.image, NULL);

	if (rc < 0)
		return rbd_api_err(err, rc, "open image '%s'", name);
	snprintf(handle.name, sizeof(handle.name), "%s", name);
	*ret = handle;
	return 0;
}

int rbd_image_each(struct rbd_cluster *cluster,
		   int (*fn)(void *arg, const char *name, struct cairn_err *err), void *arg,
		   struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(cluster);
	rbd_image_spec_t *images = NULL;
	size_t n = 256;
	int rc;

	do {
		free(images);
		images = cairn_calloc(n, sizeof(*images));
		if (!images)
			return cairn_err_nomem(err, "images");
		rc = api->rbd_list2(rbd_cluster_io(cluster), images, &n);
	} while (rc == -ERANGE);
	if (rc < 0) {
		free(images);
		return rbd_api_err(err, rc, "list images");
	}
	rc = 0;
	for (size_t i = 0; i < n && rc >= 0; i++)
		rc = fn(arg, images[i].name, err);
	api->rbd_image_spec_list_cleanup(images, n);
	free(images);
	return rc < 0 ? rc : 0;
}

/* vol-X of snap-X-N, with or without an ending. */
static bool volume_of_snapshot(const char *snapshot_id, char volume_id[RBD_IMAGE_NAME_MAX])
{
	const char *dash =
		strncmp(snapshot_id, "snap-", 5) == 0 ? strchr(snapshot_id + 5, '-') : NULL;

	if (!dash || dash - snapshot_id > 60)
		return false;
	snprintf(volume_id, RBD_IMAGE_NAME_MAX, "vol-%.*s", (int)(dash - snapshot_id - 5),
		 snapshot_id + 5);
	return true;
}

/* True for "vol-X.N", and for an image in quarantine: its snapshots are not. */
static bool may_have_snapshots_of(const char *name, const char *volume_id)
{
	size_t n = strlen(volume_id);
	uint64_t number;

	return strncmp(name, volume_id, n) == 0 && name[n] == '.' &&
	       (cairn_parse_u64(name + n + 1, &number, NULL) == 0 ||
		strcmp(name + n, RBD_IMAGE_ASIDE) == 0);
}

struct owner_search {
	struct rbd_cluster *cluster;
	const char *volume_id;
	const char *snapshot_id;
	bool writable;
	struct rbd_image_handle found;
};

/* 1 when the image has the snapshot: it is left open in the search. */
static int try_owner(struct owner_search *search, const char *name, struct cairn_err *err)
{
	int rc = rbd_image_open(search->cluster, name, search->writable, &search->found, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = rbd_image_has_snapshot(&search->found, search->snapshot_id, err);
	if (rc <= 0)
		rbd_image_done(&search->found);
	return rc;
}

static int visit_owner(void *arg, const char *name, struct cairn_err *err)
{
	struct owner_search *search = arg;
	int rc = 0;

	if (!search->found.image && may_have_snapshots_of(name, search->volume_id))
		rc = try_owner(search, name, err);
	return rc < 0 ? rc : 0;
}

static int open_owner(struct rbd_cluster *cluster, const char *snapshot_id, bool writable,
		      struct rbd_image_handle *ret, struct cairn_err *err)
{
	char volume_id[RBD_IMAGE_NAME_MAX];
	struct owner_search search = {.cluster = cluster,
				      .volume_id = volume_id,
				      .snapshot_id = snapshot_id,
				      .writable = writable};
	int rc;

	if (!volume_of_snapshot(snapshot_id, volume_id))
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no snapshot '%s'", snapshot_id);
	rc = try_owner(&search, volume_id, err);
	if (rc == 0)
		rc = rbd_image_each(cluster, visit_owner, &search, err);
	if (rc < 0) {
		rbd_image_done(&search.found);
		return rc;
	}
	if (!search.found.image)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "no snapshot '%s' in the cluster",
				     snapshot_id);
	*ret = search.found;
	return 0;
}

int rbd_image_open_owner(struct rbd_cluster *cluster, const char *snapshot_id,
			 struct rbd_image_handle *ret, struct cairn_err *err)
{
	return open_owner(cluster, snapshot_id, true, ret, err);
}

int rbd_image_open_ref(struct rbd_cluster *cluster, struct store_ref ref,
		       struct rbd_image_handle *ret, struct cairn_err *err)
{
	int rc;

	if (ref.kind == STORE_VOLUME)
		return rbd_image_open(cluster, ref.id, false, ret, err);
	rc = open_owner(cluster, ref.id, false, ret, err);
	if (rc)
		return rc;
	rc = ret->api->rbd_snap_set(ret->image, ref.id);
	if (rc < 0) {
		rbd_image_done(ret);
		return rbd_api_err(err, rc, "snapshot '%s'", ref.id);
	}
	return 0;
}

/* rbd_snap_get_id() knows only snapshots that users can name. */
int rbd_image_has_snapshot(struct rbd_image_handle *handle, const char *name, struct cairn_err *err)
{
	uint64_t id;
	int rc = handle->image ? handle->api->rbd_snap_get_id(handle->image, name, &id) : -ENOENT;

	if (rc < 0 && rc != -ENOENT)
		return rbd_api_err(err, rc, "snapshot '%s' of image '%s'", name, handle->name);
	return rc >= 0;
}

int rbd_image_each_snapshot(struct rbd_image_handle *handle,
			    int (*fn)(void *arg, const char *name, struct cairn_err *err),
			    void *arg, struct cairn_err *err)
{
	const struct rbd_api *api = handle->api;
	rbd_snap_info_t *snaps = NULL;
	int n, max = 64, rc = 0;

	if (!handle->image)
		return cairn_err_set(err, CAIRN_INTERNAL, "no open image");
	do {
		free(snaps);
		snaps = cairn_calloc((size_t)max, sizeof(*snaps));
		if (!snaps)
			return cairn_err_nomem(err, "snapshots");
		n = api->rbd_snap_list(handle->image, snaps, &max);
	} while (n == -ERANGE);
	if (n < 0) {
		free(snaps);
		return rbd_api_err(err, n, "list the snapshots of '%s'", handle->name);
	}
	for (int i = 0; i < n && rc >= 0; i++) {
		rbd_snap_namespace_type_t type = RBD_SNAP_NAMESPACE_TYPE_USER;

		if (api->rbd_snap_get_namespace_type(handle->image, snaps[i].id, &type) >= 0 &&
		    type == RBD_SNAP_NAMESPACE_TYPE_USER)
			rc = fn(arg, snaps[i].name, err);
	}
	if (n > 0)
		api->rbd_snap_list_end(snaps);
	free(snaps);
	return rc < 0 ? rc : 0;
}

static bool is_origin(const char *name)
{
	return strncmp(name, RBD_IMAGE_ORIGIN, strlen(RBD_IMAGE_ORIGIN)) == 0;
}

static int count_snapshot_of_image(void *arg, const char *name, struct cairn_err *err)
{
	(void)err;
	if (!is_origin(name))
		++*(size_t *)arg;
	return 0;
}

int rbd_image_count_snapshots(struct rbd_image_handle *handle, size_t *ret, struct cairn_err *err)
{
	*ret = 0;
	return rbd_image_each_snapshot(handle, count_snapshot_of_image, ret, err);
}

static int remove_origin(void *arg, const char *name, struct cairn_err *err)
{
	struct rbd_image_handle *handle = arg;
	int rc = is_origin(name) ? handle->api->rbd_snap_remove(handle->image, name) : 0;

	return rc < 0 && rc != -ENOENT ? rbd_api_err(err, rc, "remove '%s'", name) : 0;
}

/* The name of the image that this one was cloned from, if it is in the same namespace;
 * "" otherwise. */
static void find_parent(struct rbd_cluster *cluster, struct rbd_image_handle *handle,
			char parent[RBD_IMAGE_NAME_MAX])
{
	rbd_linked_image_spec_t image = {0};
	rbd_snap_spec_t snap = {0};

	(void)cluster;
	parent[0] = '\0';
	if (handle->api->rbd_get_parent(handle->image, &image, &snap) < 0)
		return;
	if (image.image_name)
		snprintf(parent, RBD_IMAGE_NAME_MAX, "%s", image.image_name);
	handle->api->rbd_linked_image_spec_cleanup(&image);
	handle->api->rbd_snap_spec_cleanup(&snap);
}

/* On a full cluster librbd says ENOENT of an image that it could not remove. */
static int check_gone(struct rbd_cluster *cluster, const char *name, struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	int rc = rbd_image_open(cluster, name, false, &handle, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "image '%s' could not be removed yet", name);
}

/* One image. 1: it is needed. */
static int remove_one(struct rbd_cluster *cluster, const char *name,
		      char parent[RBD_IMAGE_NAME_MAX], struct cairn_err *err)
{
	struct rbd_image_handle handle = {0};
	size_t snapshots = 0;
	int rc = rbd_image_open(cluster, name, true, &handle, err);

	parent[0] = '\0';
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = rbd_image_count_snapshots(&handle, &snapshots, err);
	if (!rc && snapshots == 0) {
		find_parent(cluster, &handle, parent);
		rc = rbd_image_each_snapshot(&handle, remove_origin, &handle, err);
	}
	rbd_image_done(&handle);
	if (rc)
		return rc;
	if (snapshots > 0)
		return 1;
	rc = rbd_cluster_api(cluster)->rbd_remove(rbd_cluster_io(cluster), name);
	if (rc == -ENOTEMPTY) /* clones need snapshots of it that lie in the trash */
		return 1;
	if (rc == -ENOENT)
		return check_gone(cluster, name, err);
	return rc < 0 ? rbd_api_err(err, rc, "remove image '%s'", name) : 0;
}

bool rbd_image_is_ours(const char *name)
{
	char id[POOL_ID_MAX + 1];
	size_t n = strcspn(name, ".");
	uint64_t volume;

	if (n > POOL_ID_MAX)
		return false;
	memcpy(id, name, n);
	id[n] = '\0';
	return pool_ids_parse_volume(id, &volume);
}

bool rbd_image_is_retired(const char *name)
{
	const char *dot = strchr(name, '.');
	uint64_t number;

	return dot && rbd_image_is_ours(name) && cairn_parse_u64(dot + 1, &number, NULL) == 0;
}

int rbd_image_remove(struct rbd_cluster *cluster, const char *name, struct cairn_err *err)
{
	char at[RBD_IMAGE_NAME_MAX], parent[RBD_IMAGE_NAME_MAX];
	int rc = remove_one(cluster, name, parent, err);

	/* A parent that cannot be removed now goes when images are listed by a check. */
	for (unsigned i = 0; rc == 0 && i < PARENTS_MAX && rbd_image_is_retired(parent); i++) {
		memcpy(at, parent, sizeof(at));
		if (remove_one(cluster, at, parent, NULL) != 0)
			break;
	}
	return rc;
}

int rbd_image_retire(struct rbd_cluster *cluster, const char *volume_id, struct cairn_err *err)
{
	int rc = -EEXIST;

	for (unsigned i = 0; i < RETIRED_MAX && rc == -EEXIST; i++) {
		char name[RBD_IMAGE_NAME_MAX];

		snprintf(name, sizeof(name), "%.64s.%u", volume_id, i);
		rc = rbd_cluster_api(cluster)->rbd_rename(rbd_cluster_io(cluster), volume_id, name);
	}
	return rc < 0 && rc != -ENOENT ? rbd_api_err(err, rc, "rename image '%s'", volume_id) : 0;
}
