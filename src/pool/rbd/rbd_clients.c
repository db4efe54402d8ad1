/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_clients.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "pool/rbd/rbd_image.h"

/* Clients of one image that are looked at. */
#define WATCHERS_MAX 16U

/* A client that only looks closes the image soon. */
#define CLIENT_WAIT_MS 3000U
#define CLIENT_POLL_MS 50U

int rbd_clients_find(struct rbd_cluster *cluster, const char *volume_id,
		     char client[RBD_CLIENT_MAX], struct cairn_err *err)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	rbd_image_watcher_t watchers[WATCHERS_MAX];
	size_t n = WATCHERS_MAX;
	int rc = rbd_image_open(cluster, volume_id, false, &handle, err);

	client[0] = '\0';
	if (rc)
		return rc;
	rc = handle.api->rbd_watchers_list(handle.image, watchers, &n);
	if (rc == -ERANGE) {
		snprintf(client, RBD_CLIENT_MAX, "%zu clients", n);
		return 0;
	}
	if (rc < 0)
		return rbd_api_err(err, rc, "clients of image '%s'", volume_id);
	if (n > 0)
		snprintf(client, RBD_CLIENT_MAX, "%s", watchers[0].addr);
	handle.api->rbd_watchers_list_cleanup(watchers, n);
	return 0;
}

int rbd_clients_await_none(struct rbd_cluster *cluster, const char *id, struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() + CLIENT_WAIT_MS * CAIRN_NS_PER_MS;
	char client[RBD_CLIENT_MAX];
	int rc;

	for (;;) {
		rc = rbd_clients_find(cluster, id, client, err);
		if (rc || !client[0])
			return rc;
		if (cairn_monotonic_ns() > deadline)
			return cairn_err_set(err, CAIRN_PRECONDITION,
					     "the image '%s' is open for writing on %s", id,
					     client);
		cairn_sleep_ms(CLIENT_POLL_MS);
	}
}
