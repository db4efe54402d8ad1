/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/changeset_worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "pool/pool.h"
#include "pool/store/store.h"

struct work {
	struct pool *pool;
	char snapshot_id[POOL_ID_MAX + 1]; /* "": clean up the pool */
};

struct csi_changeset_worker {
	pthread_t thread;
	atomic_bool stopping;

	pthread_mutex_t mutex; /* guards the rest */
	pthread_cond_t changed;
	size_t first;
	size_t n;
	struct work queue[CSI_COMPLETER_QUEUE];
};

static bool is_stopping(void *arg)
{
	struct csi_changeset_worker *completer = arg;

	return atomic_load(&completer->stopping);
}

/* Waits for work; false at the shutdown. */
static bool take_work(struct csi_changeset_worker *completer, struct work *ret)
{
	cairn_scoped_lock(&completer->mutex);
	while (completer->n == 0 && !completer->stopping)
		pthread_cond_wait(&completer->changed, &completer->mutex);
	if (completer->stopping)
		return false;
	*ret = completer->queue[completer->first];
	completer->first = (completer->first + 1) % CSI_COMPLETER_QUEUE;
	completer->n--;
	return true;
}

static void do_work(const struct work *work, const struct store_progress *progress)
{
	struct cairn_err err = {0};
	bool settle = !work->snapshot_id[0];
	int rc = settle ? pool_settle(work->pool, progress, &err)
			: pool_snapshot_complete(work->pool, work->snapshot_id, progress, &err);

	if (!rc || rc == CAIRN_NOT_FOUND || rc == CAIRN_CANCELLED)
		return;
	cairn_log(CAIRN_LOG_WARN,
		  settle ? "cleaning up left for later" : "change set left for later",
		  CAIRN_STR("snapshot", work->snapshot_id), CAIRN_STR("reason", err.msg));
}

static void *changeset_worker_run(void *arg)
{
	struct csi_changeset_worker *completer = arg;
	struct store_progress progress = {.cancelled = is_stopping, .arg = completer};
	struct work work;

	while (take_work(completer, &work))
		do_work(&work, &progress);
	return NULL;
}

int csi_changeset_worker_new(struct csi_changeset_worker **ret, struct cairn_err *err)
{
	cairn_auto_free struct csi_changeset_worker *completer =
		cairn_calloc(1, sizeof(*completer));
	int rc;

	if (!completer)
		return cairn_err_nomem(err, "completer");
	pthread_mutex_init(&completer->mutex, NULL);
	pthread_cond_init(&completer->changed, NULL);
	rc = pthread_create(&completer->thread, NULL, changeset_worker_run, completer);
	if (rc)
		return cairn_err_sys(err, rc, "start a thread");
	*ret = cairn_take(completer);
	return 0;
}

void csi_changeset_worker_free(struct csi_changeset_worker *completer)
{
	/* The comparison reads it without the lock. The lock is taken for the signal: the thread
	 * may have seen the old value and not wait yet. */
	atomic_store(&completer->stopping, true);
	pthread_mutex_lock(&completer->mutex);
	pthread_cond_broadcast(&completer->changed);
	pthread_mutex_unlock(&completer->mutex);
	pthread_join(completer->thread, NULL);
	pthread_cond_destroy(&completer->changed);
	pthread_mutex_destroy(&completer->mutex);
	free(completer);
}

void csi_changeset_worker_add(struct csi_changeset_worker *completer, struct pool *pool,
			      const char *snapshot_id)
{
	cairn_scoped_lock(&completer->mutex);
	if (completer->n == CSI_COMPLETER_QUEUE)
		return;
	struct work *work =
		&completer->queue[(completer->first + completer->n++) % CSI_COMPLETER_QUEUE];

	work->pool = pool;
	snprintf(work->snapshot_id, sizeof(work->snapshot_id), "%s",
		 snapshot_id ? snapshot_id : "");
	pthread_cond_signal(&completer->changed);
}
