/* SPDX-License-Identifier: Apache-2.0 */

/* Listing the objects of the store, and quarantine. */

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_image.h"
#include "pool/rbd/rbd_store_impl.h"

struct store_listing {
	struct rbd_cluster *cluster;
	enum store_kind kind;
	bool aside;
	bool writable;
	int (*fn)(void *arg, const char *id, struct cairn_err *err);
	void *arg;
};

/* Passes the name on if its quarantine is the one that is listed. */
static int list_name(const struct store_listing *listing, const char *name, struct cairn_err *err)
{
	size_t n = strlen(name), ending = strlen(RBD_IMAGE_ASIDE);
	bool aside = n > ending && strcmp(name + n - ending, RBD_IMAGE_ASIDE) == 0;
	char id[RBD_IMAGE_NAME_MAX];

	if (aside != listing->aside || n >= sizeof(id))
		return 0;
	snprintf(id, sizeof(id), "%.*s", (int)(aside ? n - ending : n), name);
	return listing->fn(listing->arg, id, err);
}

static int list_snapshot(void *arg, const char *name, struct cairn_err *err)
{
	return strncmp(name, "snap-", 5) == 0 ? list_name(arg, name, err) : 0;
}

/* An old image of a volume that nothing needs any more was left by a process that could
 * not remove it, and goes now. */
static int list_image(void *arg, const char *name, struct cairn_err *err)
{
	struct store_listing *listing = arg;
	struct rbd_image_handle handle = {0};
	const char *dot = strchr(name, '.');
	int rc;

	if (!rbd_image_is_ours(name))
		return 0;
	if (listing->kind == STORE_VOLUME && (!dot || strcmp(dot, RBD_IMAGE_ASIDE) == 0))
		return list_name(listing, name, err);
	if (listing->kind == STORE_VOLUME) {
		if (listing->writable && rbd_image_is_retired(name))
			(void)rbd_image_remove(listing->cluster, name, NULL);
		return 0;
	}
	rc = rbd_image_open(listing->cluster, name, false, &handle, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = rbd_image_each_snapshot(&handle, list_snapshot, listing, err);
	rbd_image_done(&handle);
	return rc;
}

static int store_list(struct store *store, enum store_kind kind, bool aside,
		      int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
		      struct cairn_err *err)
{
	struct store_listing listing = {.cluster = rbd_store_cluster(store),
					.kind = kind,
					.aside = aside,
					.writable = store->writable,
					.fn = fn,
					.arg = arg};

	return rbd_image_each(listing.cluster, list_image, &listing, err);
}

int rbd_store_list(struct store *store, enum store_kind kind,
		   int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
		   struct cairn_err *err)
{
	return store_list(store, kind, false, fn, arg, err);
}

int rbd_store_list_aside(struct store *store, enum store_kind kind,
			 int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
			 struct cairn_err *err)
{
	return store_list(store, kind, true, fn, arg, err);
}

/* Renames an object, whose names are `from` and `to`. */
static int rename_either(struct store *store, enum store_kind kind, const char *from,
			 const char *to, struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	struct rbd_cluster *cluster = rbd_store_cluster(store);
	int rc;

	if (kind == STORE_VOLUME)
		return rbd_store_rename_image(cluster, from, to, err);
	rc = rbd_image_open_owner(cluster, from, &handle, err);
	if (rc)
		return rc;
	rc = handle.api->rbd_snap_rename(handle.image, from, to);
	return rc < 0 ? rbd_api_err(err, rc, "rename snapshot '%s'", from) : 0;
}

static void aside_name(const char *id, char name[RBD_IMAGE_NAME_MAX])
{
	snprintf(name, RBD_IMAGE_NAME_MAX, "%.64s" RBD_IMAGE_ASIDE, id);
}

int rbd_store_set_aside(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	char aside[RBD_IMAGE_NAME_MAX];

	aside_name(ref.id, aside);
	return rename_either(store, ref.kind, ref.id, aside, err);
}

int rbd_store_bring_back(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	char aside[RBD_IMAGE_NAME_MAX];

	aside_name(ref.id, aside);
	return rename_either(store, ref.kind, aside, ref.id, err);
}

int rbd_store_drop_aside(struct store *store, struct store_ref ref, struct cairn_err *err)
{
	char aside[RBD_IMAGE_NAME_MAX];
	int rc;

	aside_name(ref.id, aside);
	if (ref.kind == STORE_SNAPSHOT)
		return rbd_store_remove_snapshot(rbd_store_cluster(store), aside, err);
	rc = rbd_image_remove(rbd_store_cluster(store), aside, err);
	return rc > 0 ? cairn_err_set(err, CAIRN_PRECONDITION, "image '%s' has snapshots", aside)
		      : rc;
}
