/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_image_lock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_image.h"

#define OWNERS_MAX   4U
#define OWNER_MAX    256U
#define WATCHERS_MAX 16U

/* A client that writes now and then has the lock until it closes the image. */
#define OWNER_WAIT_MS 3000U
#define OWNER_POLL_MS 50U

/* The client that holds the lock, "" if nobody does. */
static int find_owner(struct rbd_image_handle *handle, char owner[OWNER_MAX], struct cairn_err *err)
{
	char *owners[OWNERS_MAX] = {0};
	size_t n = OWNERS_MAX;
	rbd_lock_mode_t mode;
	int rc = handle->api->rbd_lock_get_owners(handle->image, &mode, owners, &n);

	owner[0] = '\0';
	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return rbd_api_err(err, rc, "holder of the lock of image '%s'", handle->name);
	if (n > 0)
		snprintf(owner, OWNER_MAX, "%s", owners[0]);
	handle->api->rbd_lock_get_owners_cleanup(owners, n);
	return 0;
}

/* Without the kind: "v1:" or "v2:". */
static const char *bare(const char *address)
{
	return address[0] == 'v' && address[1] && address[2] == ':' ? address + 3 : address;
}

/* Whether the client watches the image: one that does not has gone, or was fenced. */
static int is_watching(struct rbd_image_handle *handle, const char *client, bool *ret,
		       struct cairn_err *err)
{
	rbd_image_watcher_t watchers[WATCHERS_MAX];
	size_t n = WATCHERS_MAX;
	int rc = handle->api->rbd_watchers_list(handle->image, watchers, &n);

	*ret = true;
	if (rc == -ERANGE)
		return 0;
	if (rc < 0)
		return rbd_api_err(err, rc, "clients of image '%s'", handle->name);
	*ret = false;
	for (size_t i = 0; i < n; i++)
		*ret |= strcmp(bare(watchers[i].addr), bare(client)) == 0;
	handle->api->rbd_watchers_list_cleanup(watchers, n);
	return 0;
}

int rbd_image_break_dead(struct rbd_cluster *cluster, struct rbd_image_handle *handle,
			 struct cairn_err *err)
{
	char owner[OWNER_MAX];
	bool fenced = false, watching = true;
	int rc = find_owner(handle, owner, err);

	if (rc || !owner[0])
		return rc;
	rc = rbd_cluster_fence_dead_client(cluster, owner, &fenced, err);
	if (!rc && !fenced)
		rc = is_watching(handle, owner, &watching, err);
	if (rc || (!fenced && watching))
		return rc;
	rc = handle->api->rbd_lock_break(handle->image, RBD_LOCK_MODE_EXCLUSIVE, owner);
	return rc < 0 && rc != -ENOENT && rc != -EBUSY
		       ? rbd_api_err(err, rc, "break the lock of image '%s'", handle->name)
		       : 0;
}

/* librbd would ask the holder for the lock, and krbd gives it: a filesystem that is mounted
 * there would lose its disk. */
static int await_no_owner(struct rbd_image_handle *handle, struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() + OWNER_WAIT_MS * CAIRN_NS_PER_MS;
	char owner[OWNER_MAX];

	for (;;) {
		int rc = find_owner(handle, owner, err);

		if (rc || !owner[0])
			return rc;
		if (cairn_monotonic_ns() > deadline)
			return cairn_err_set(err, CAIRN_PRECONDITION,
					     "the image '%s' is in use by the client %s",
					     handle->name, owner);
		cairn_sleep_ms(OWNER_POLL_MS);
	}
}

int rbd_image_lock(struct rbd_cluster *cluster, struct rbd_image_handle *handle,
		   struct cairn_err *err)
{
	char owner[OWNER_MAX] = "";
	int rc = rbd_image_break_dead(cluster, handle, err);

	if (!rc)
		rc = await_no_owner(handle, err);
	if (rc)
		return rc;
	rc = handle->api->rbd_lock_acquire(handle->image, RBD_LOCK_MODE_EXCLUSIVE);
	if (rc >= 0)
		return 0;
	(void)find_owner(handle, owner, NULL);
	if (rc == -EROFS || rc == -EBUSY)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the image '%s' is in use by the client %s", handle->name,
				     owner);
	return rbd_api_err(err, rc, "lock image '%s'", handle->name);
}
