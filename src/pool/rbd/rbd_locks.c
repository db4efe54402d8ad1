/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_locks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "pool/locks.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_omap.h"

#define KEY_LEN 16U

/* Between two tries, and before a holder is asked whether it lives. */
#define PAUSE_MIN_MS 2U
#define PAUSE_MAX_MS 50U
#define ASK_AFTER_MS 250U

/* Between two looks at the session's watch. */
#define KEEP_MS 5000

/* The session, and a number that no other lock of it has: a release whose outcome is unknown
 * can then be repeated. */
#define VALUE_MAX (RBD_SESSION_ID_MAX + 21U)

struct held {
	uint64_t slot;
	char value[VALUE_MAX];
	int fd; /* our end of the pipe; the holder has the other. -1: to be released */
};

struct rbd_locks {
	struct locks base;
	struct rbd_cluster *cluster;
	pthread_t thread;
	bool has_thread;
	int wake[2]; /* a byte makes the thread look at the list again */
	atomic_uint_fast64_t serial;

	pthread_mutex_t mutex;          /* guards what follows */
	char fence[RBD_SESSION_ID_MAX]; /* whose fencing this process knows of; "": none */
	struct held *held;
	size_t n;
	bool stop;
};

static void locks_key(uint64_t slot, char key[KEY_LEN + 1])
{
	snprintf(key, KEY_LEN + 1, "%016" PRIx64, slot);
}

/* Replaces the entry's value `from` by `to`; "" is no entry. 1: it was another, or, with
 * `fence`, another process was fenced since. */
static int locks_exchange(struct rbd_locks *locks, uint64_t slot, const char *from, const char *to,
			  const char *fence, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(locks->cluster);
	rados_write_op_t op = api->rados_create_write_op();
	char key[KEY_LEN + 1];
	const char *keys[] = {key};
	const size_t key_len = KEY_LEN, to_len = strlen(to);
	int rc;

	locks_key(slot, key);
	api->rados_write_op_create(op, LIBRADOS_CREATE_IDEMPOTENT, NULL);
	api->rados_write_op_omap_cmp2(op, key, LIBRADOS_CMPXATTR_OP_EQ, from, key_len, strlen(from),
				      NULL);
	if (fence)
		api->rados_write_op_omap_cmp2(op, RBD_LOCKS_FENCE, LIBRADOS_CMPXATTR_OP_EQ, fence,
					      strlen(RBD_LOCKS_FENCE), strlen(fence), NULL);
	if (to_len > 0)
		api->rados_write_op_omap_set2(op, keys, &to, &key_len, &to_len, 1);
	else
		api->rados_write_op_omap_rm_keys2(op, keys, &key_len, 1);
	rc = api->rados_write_op_operate(op, rbd_cluster_io(locks->cluster), RBD_OBJECT_LOCKS, NULL,
					 LIBRADOS_OPERATION_FULL_TRY);
	api->rados_release_write_op(op);
	if (rc == -ECANCELED)
		return 1;
	return rc < 0 ? rbd_api_err(err, rc, "lock") : 0;
}

/* False if it has to be tried again. Those of a fenced session are removed by others. */
static bool locks_release(struct rbd_locks *locks, const struct held *held)
{
	const char *session;

	return rbd_cluster_session(locks->cluster, &session, NULL) != 0 ||
	       locks_exchange(locks, held->slot, held->value, "", NULL, NULL) >= 0;
}

static bool locks_remember(struct rbd_locks *locks, const struct held *held)
{
	struct held *grown;

	cairn_scoped_lock(&locks->mutex);
	grown = cairn_realloc_array(locks->held, locks->n + 1, sizeof(*grown));
	if (!grown)
		return false;
	locks->held = grown;
	grown[locks->n++] = *held;
	return true;
}

/* Takes the first lock whose holder has closed its descriptor off the list. */
static bool locks_take_closed(struct rbd_locks *locks, struct held *ret)
{
	cairn_scoped_lock(&locks->mutex);
	for (size_t i = 0; i < locks->n; i++) {
		struct pollfd poll_fd = {.fd = locks->held[i].fd};

		if (poll_fd.fd >= 0 && poll(&poll_fd, 1, 0) != 1)
			continue;
		*ret = locks->held[i];
		cairn_closep(&ret->fd);
		ret->fd = -1;
		locks->held[i] = locks->held[--locks->n];
		return true;
	}
	return false;
}

static void locks_release_closed(struct rbd_locks *locks)
{
	struct held held;

	while (locks_take_closed(locks, &held))
		if (!locks_release(locks, &held)) {
			(void)locks_remember(locks, &held);
			return; /* the thread tries again */
		}
}

/* The descriptors to wait for: the wake-up first. NULL when the thread is to stop. */
static struct pollfd *locks_wait_list(struct rbd_locks *locks, size_t *ret_n)
{
	struct pollfd *list;

	cairn_scoped_lock(&locks->mutex);
	list = locks->stop ? NULL : cairn_calloc(locks->n + 1, sizeof(*list));
	if (!list)
		return NULL;
	list[0] = (struct pollfd){.fd = locks->wake[0], .events = POLLIN};
	for (size_t i = 0; i < locks->n; i++)
		list[i + 1] = (struct pollfd){.fd = locks->held[i].fd};
	*ret_n = locks->n + 1;
	return list;
}

static void *locks_watch(void *arg)
{
	struct rbd_locks *locks = arg;
	struct pollfd *list;
	size_t n = 0;
	char bytes[64];

	while ((list = locks_wait_list(locks, &n))) {
		int ready = poll(list, n, KEEP_MS);

		if (ready > 0 && (list[0].revents & POLLIN))
			(void)!read(locks->wake[0], bytes, sizeof(bytes));
		free(list);
		locks_release_closed(locks);
		rbd_cluster_keep_session(locks->cluster);
	}
	return NULL;
}

static void locks_wake(struct rbd_locks *locks)
{
	(void)!write(locks->wake[1], "", 1);
}

static int locks_keep(struct rbd_locks *locks, struct held *held, int *ret_fd,
		      struct cairn_err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return cairn_err_sys(err, errno, "lock");
	held->fd = ends[0];
	if (!locks_remember(locks, held)) {
		close(ends[0]);
		close(ends[1]);
		held->fd = -1;
		return cairn_err_nomem(err, "lock");
	}
	locks_wake(locks);
	*ret_fd = ends[1];
	return 0;
}

/* Asks the holder of a lock that stays taken, and fences it if it is dead. */
static int locks_ask_holder(struct rbd_locks *locks, uint64_t slot, const char *own,
			    struct cairn_err *err)
{
	cairn_auto_free uint8_t *holder = NULL;
	char key[KEY_LEN + 1];
	bool alive = true;
	size_t n;
	int rc;

	locks_key(slot, key);
	rc = rbd_omap_get(locks->cluster, RBD_OBJECT_LOCKS, key, KEY_LEN, &holder, &n, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	holder[strcspn((const char *)holder, ".")] = '\0';
	if (strcmp((const char *)holder, own) == 0)
		return 0;
	rc = rbd_cluster_is_alive(locks->cluster, (const char *)holder, &alive, err);
	return rc || alive ? rc : rbd_cluster_fence(locks->cluster, (const char *)holder, err);
}

/* Takes note of a process that was fenced since the last look, and waits for the map that
 * blocklists it: from then on every storage daemon that this process talks to refuses what
 * that one had under way. *ret: there was one. */
static int locks_see_fence(struct rbd_locks *locks, bool *ret, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(locks->cluster);
	cairn_auto_free uint8_t *fence = NULL;
	size_t n = 0;
	int rc = rbd_omap_get(locks->cluster, RBD_OBJECT_LOCKS, RBD_LOCKS_FENCE,
			      strlen(RBD_LOCKS_FENCE), &fence, &n, err);

	*ret = false;
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	pthread_mutex_lock(&locks->mutex);
	*ret = strcmp(locks->fence, (const char *)fence) != 0;
	pthread_mutex_unlock(&locks->mutex);
	if (!*ret)
		return 0;
	rc = api->rados_wait_for_latest_osdmap(rbd_cluster_rados(locks->cluster));
	if (rc < 0)
		return rbd_api_err(err, rc, "wait for the map of the cluster");
	pthread_mutex_lock(&locks->mutex);
	snprintf(locks->fence, sizeof(locks->fence), "%s", (const char *)fence);
	pthread_mutex_unlock(&locks->mutex);
	return 0;
}

/* One try; 1: it is taken. */
static int locks_try(struct rbd_locks *locks, const struct held *held, struct cairn_err *err)
{
	char known[RBD_SESSION_ID_MAX];
	bool fenced = true;
	int rc = 1;

	while (rc == 1 && fenced) {
		int seen;

		pthread_mutex_lock(&locks->mutex);
		memcpy(known, locks->fence, sizeof(known));
		pthread_mutex_unlock(&locks->mutex);
		rc = locks_exchange(locks, held->slot, "", held->value, known, err);
		seen = rc == 1 ? locks_see_fence(locks, &fenced, err) : 0;
		rc = seen ? seen : rc;
	}
	return rc;
}

/* Tries until the time is over. */
static int locks_wait(struct rbd_locks *locks, const struct held *held, const char *session,
		      uint64_t wait_ms, struct cairn_err *err)
{
	uint64_t start = cairn_monotonic_ns(), ask_ms = ASK_AFTER_MS, pause = PAUSE_MIN_MS;

	for (;;) {
		uint64_t waited_ms;
		int rc = locks_try(locks, held, err);

		if (rc <= 0)
			return rc;
		locks_release_closed(locks);
		waited_ms = (cairn_monotonic_ns() - start) / CAIRN_NS_PER_MS;
		if (waited_ms >= ask_ms) {
			rc = locks_ask_holder(locks, held->slot, session, err);
			if (rc)
				return rc;
			ask_ms = waited_ms + 4 * (uint64_t)ASK_AFTER_MS;
			continue;
		}
		if (waited_ms >= wait_ms)
			return cairn_err_set(err, CAIRN_ABORTED,
					     "another operation holds the lock");
		cairn_sleep_ms(pause);
		pause = pause < PAUSE_MAX_MS ? pause * 2 : pause;
	}
}

static int locks_start(struct rbd_locks *locks, struct cairn_err *err)
{
	cairn_scoped_lock(&locks->mutex);
	if (locks->has_thread)
		return 0;
	if (pipe2(locks->wake, O_CLOEXEC | O_NONBLOCK) < 0)
		return cairn_err_sys(err, errno, "lock");
	if (pthread_create(&locks->thread, NULL, locks_watch, locks) != 0)
		return cairn_err_sys(err, EAGAIN, "thread of the locks");
	locks->has_thread = true;
	return 0;
}

static int rbd_locks_take(struct locks *base, uint64_t slot, uint64_t wait_ms, int *ret_fd,
			  struct cairn_err *err)
{
	struct rbd_locks *locks = (struct rbd_locks *)base;
	struct held held = {.slot = slot, .fd = -1};
	const char *session;
	int rc = locks_start(locks, err);

	if (!rc)
		rc = rbd_cluster_session(locks->cluster, &session, err);
	if (rc)
		return rc;
	snprintf(held.value, sizeof(held.value), "%s.%" PRIuFAST64, session,
		 atomic_fetch_add(&locks->serial, 1));
	locks_release_closed(locks);
	rc = locks_wait(locks, &held, session, wait_ms, err);
	if (rc == CAIRN_ABORTED)
		return rc;
	if (!rc)
		rc = locks_keep(locks, &held, ret_fd, err);
	if (rc) /* it may have been taken, or be taken yet */
		(void)locks_remember(locks, &held);
	return rc;
}

static void rbd_locks_close(struct locks *base)
{
	struct rbd_locks *locks = (struct rbd_locks *)base;

	if (locks->has_thread) {
		pthread_mutex_lock(&locks->mutex);
		locks->stop = true;
		pthread_mutex_unlock(&locks->mutex);
		locks_wake(locks);
		pthread_join(locks->thread, NULL);
	}
	for (size_t i = 0; i < locks->n; i++) {
		cairn_closep(&locks->held[i].fd);
		(void)locks_release(locks, &locks->held[i]);
	}
	cairn_closep(&locks->wake[0]);
	cairn_closep(&locks->wake[1]);
	pthread_mutex_destroy(&locks->mutex);
	free(locks->held);
	free(locks);
}

int rbd_locks_is_held(struct rbd_cluster *cluster, uint64_t slot, bool *ret, struct cairn_err *err)
{
	cairn_auto_free uint8_t *holder = NULL;
	char key[KEY_LEN + 1];
	size_t n;
	int rc;

	*ret = false;
	locks_key(slot, key);
	rc = rbd_omap_get(cluster, RBD_OBJECT_LOCKS, key, KEY_LEN, &holder, &n, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	holder[strcspn((const char *)holder, ".")] = '\0';
	return rbd_cluster_is_alive(cluster, (const char *)holder, ret, err);
}

static const struct lock_ops rbd_lock_ops = {
	.name = "rados",
	.close = rbd_locks_close,
	.take = rbd_locks_take,
};

int rbd_locks_open(struct rbd_cluster *cluster, struct locks **ret, struct cairn_err *err)
{
	struct rbd_locks *locks = cairn_calloc(1, sizeof(*locks));

	if (!locks)
		return cairn_err_nomem(err, "locks");
	locks->base.ops = &rbd_lock_ops;
	locks->cluster = cluster;
	locks->wake[0] = locks->wake[1] = -1;
	pthread_mutex_init(&locks->mutex, NULL);
	*ret = &locks->base;
	return 0;
}
