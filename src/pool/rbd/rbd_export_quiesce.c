/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_export_quiesce.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "pool/device/freeze_guard.h"
#include "pool/device/volume_device.h"
#include "pool/rbd/rbd_image.h"

enum wish {
	WISH_NONE,
	WISH_FREEZE,
	WISH_THAW,
	WISH_END,
};

/* librbd calls back on a thread of its own, which must not wait; a thread of ours freezes. */
struct rbd_export_quiesce {
	struct rbd_image_handle *image;
	const char *file;
	uint64_t watch;
	bool watched;
	pthread_t thread;
	struct device_freeze *freeze; /* of the thread */

	pthread_mutex_t mutex; /* guards what follows */
	pthread_cond_t changed;
	enum wish wish;
};

static void quiesce_wish(struct rbd_export_quiesce *quiesce, enum wish wish)
{
	cairn_scoped_lock(&quiesce->mutex);
	if (quiesce->wish != WISH_END)
		quiesce->wish = wish;
	pthread_cond_signal(&quiesce->changed);
}

static void freeze_wanted(void *arg)
{
	quiesce_wish(arg, WISH_FREEZE);
}

static void thaw_wanted(void *arg)
{
	quiesce_wish(arg, WISH_THAW);
}

static void quiesce_thaw(struct rbd_export_quiesce *quiesce)
{
	pool_device_freeze_freep(&quiesce->freeze);
	quiesce->freeze = NULL;
}

/* What a device holds in its own cache is flushed; that fails only if the image refuses
 * writes, and then the cut must not be made. */
static int quiesce_freeze(struct rbd_export_quiesce *quiesce)
{
	cairn_cleanup(pool_device_list_done) struct device_list devices = {0};
	const char *mounts[FREEZE_MOUNTS_MAX];
	size_t n = 0;
	int rc = pool_device_list_get(quiesce->file, &devices, NULL);

	for (size_t i = 0; i < devices.n && n < FREEZE_MOUNTS_MAX; i++)
		if (devices.list[i].mount)
			mounts[n++] = devices.list[i].mount;
	quiesce_thaw(quiesce);
	if (!rc && n > 0)
		(void)pool_device_freeze_begin(mounts, n, &quiesce->freeze, NULL);
	for (size_t i = 0; i < devices.n && !rc; i++)
		rc = pool_device_flush(devices.list[i].path, NULL);
	return rc ? -EIO : 0;
}

static enum wish quiesce_await(struct rbd_export_quiesce *quiesce)
{
	enum wish wish;

	cairn_scoped_lock(&quiesce->mutex);
	while (quiesce->wish == WISH_NONE)
		pthread_cond_wait(&quiesce->changed, &quiesce->mutex);
	wish = quiesce->wish;
	if (wish != WISH_END)
		quiesce->wish = WISH_NONE;
	return wish;
}

static void *quiesce_thread(void *arg)
{
	struct rbd_export_quiesce *quiesce = arg;
	enum wish wish;

	while ((wish = quiesce_await(quiesce)) != WISH_END) {
		if (wish == WISH_FREEZE)
			quiesce->image->api->rbd_quiesce_complete(
				quiesce->image->image, quiesce->watch, quiesce_freeze(quiesce));
		else
			quiesce_thaw(quiesce);
	}
	quiesce_thaw(quiesce);
	return NULL;
}

int rbd_export_quiesce_begin(struct rbd_image_handle *image, const char *file,
			     struct rbd_export_quiesce **ret, struct cairn_err *err)
{
	struct rbd_export_quiesce *quiesce = cairn_calloc(1, sizeof(*quiesce));
	int rc;

	if (!quiesce)
		return cairn_err_nomem(err, "export");
	quiesce->image = image;
	quiesce->file = file;
	pthread_mutex_init(&quiesce->mutex, NULL);
	pthread_cond_init(&quiesce->changed, NULL);
	if (pthread_create(&quiesce->thread, NULL, quiesce_thread, quiesce) != 0) {
		free(quiesce);
		return cairn_err_sys(err, EAGAIN, "thread of the export");
	}
	rc = image->api->rbd_quiesce_watch(image->image, freeze_wanted, thaw_wanted, quiesce,
					   &quiesce->watch);
	quiesce->watched = rc >= 0;
	if (rc < 0) {
		rbd_export_quiesce_end(quiesce);
		return rbd_api_err(err, rc, "watch for snapshots of '%s'", image->name);
	}
	*ret = quiesce;
	return 0;
}

void rbd_export_quiesce_end(struct rbd_export_quiesce *quiesce)
{
	if (!quiesce)
		return;
	if (quiesce->watched)
		(void)quiesce->image->api->rbd_quiesce_unwatch(quiesce->image->image,
							       quiesce->watch);
	quiesce_wish(quiesce, WISH_END);
	pthread_join(quiesce->thread, NULL);
	pthread_mutex_destroy(&quiesce->mutex);
	pthread_cond_destroy(&quiesce->changed);
	free(quiesce);
}
