/* SPDX-License-Identifier: Apache-2.0 */

/* Sessions of others: whether their processes live, and fencing those that died. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_cluster_impl.h"
#include "pool/rbd/rbd_omap.h"
#include "pool/rbd/rbd_process.h"

/* How long the process of a session may take to answer: one of another host, and one of this
 * host, which is seen to run and may just be stopped. librados waits whole seconds, and its
 * own default for less than one. */
#define ANSWER_MS      1000U
#define ANSWER_HERE_MS 5000U

/* Sessions of processes that died without anybody waiting for their locks: when there are
 * more than a few, some are removed, those whose watch has ended too. */
#define SWEEP_FROM 8U
#define SWEEP_MAX  4U

/* A fenced process must have ended by then: longer than any pause of a machine. */
#define BLOCKLIST_S 86400U

static uint32_t le32(const char *at)
{
	const uint8_t *p = (const uint8_t *)at;

	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

enum session_state {
	SESSION_GONE,   /* nobody watches */
	SESSION_SILENT, /* its process did not answer in time */
	SESSION_ALIVE,
};

/* The reply begins with the number of watchers that answered; of those that did not, the
 * return value tells. Without a reply it was the storage daemon that did not answer, which
 * says nothing about the session. */
static int ask_session(struct rbd_cluster *cluster, const char *id, uint64_t wait_ms,
		       enum session_state *ret, struct cairn_err *err)
{
	char object[64], *reply = NULL;
	size_t n = 0;
	int rc;

	rbd_session_object(id, object);
	rc = cluster->api->rados_notify2(cluster->io, object, "", 0, wait_ms, &reply, &n);
	if (rc >= 0 || rc == -ENOENT || (rc == -ETIMEDOUT && reply && n >= 4)) {
		if (reply && n >= 4 && le32(reply) > 0)
			*ret = SESSION_ALIVE;
		else
			*ret = rc == -ETIMEDOUT ? SESSION_SILENT : SESSION_GONE;
		rc = 0;
	}
	if (reply)
		cluster->api->rados_buffer_free(reply);
	return rc < 0 ? rbd_api_err(err, rc, "ask the session %s", id) : 0;
}

/* The address and the mark of a session's process; the mark is "" if it has none.
 * CAIRN_NOT_FOUND: the session has ended. */
static int read_session(struct rbd_cluster *cluster, const char *id,
			char address[RBD_SESSION_VALUE_MAX], char mark[RBD_PROCESS_MARK_MAX],
			struct cairn_err *err)
{
	cairn_auto_free uint8_t *value = NULL;
	char key[RBD_SESSION_KEY_MAX];
	const char *text, *space;
	size_t n = 0;
	int rc;

	rbd_session_key(id, key);
	rc = rbd_omap_get(cluster, RBD_OBJECT_CATALOGUE, key, strlen(key), &value, &n, err);
	if (rc)
		return rc;
	text = (const char *)value;
	space = strchr(text, ' ');
	snprintf(address, RBD_SESSION_VALUE_MAX, "%.*s", (int)strcspn(text, " "), text);
	snprintf(mark, RBD_PROCESS_MARK_MAX, "%s", space ? space + 1 : "");
	return 0;
}

int rbd_cluster_is_alive(struct rbd_cluster *cluster, const char *id, bool *ret,
			 struct cairn_err *err)
{
	char address[RBD_SESSION_VALUE_MAX], mark[RBD_PROCESS_MARK_MAX] = "";
	enum session_state state = SESSION_ALIVE;
	enum rbd_process_state process;
	int rc = read_session(cluster, id, address, mark, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	process = rbd_process_look(mark);
	if (rc == CAIRN_NOT_FOUND || process == RBD_PROCESS_ENDED) {
		*ret = false;
		return 0;
	}
	rc = ask_session(cluster, id, process == RBD_PROCESS_RUNS ? ANSWER_HERE_MS : ANSWER_MS,
			 &state, err);
	if (!rc)
		*ret = state == SESSION_ALIVE;
	return rc;
}

/* "v2:127.0.0.1:0/123", "v2:[::1]:0/123" or a list "[v2:…,v1:…]": the blocklist takes one
 * address without its kind. */
static void bare_address(const char *address, char bare[RBD_SESSION_VALUE_MAX])
{
	if (address[0] == '[' && address[1] == 'v')
		address++;
	if (address[0] == 'v' && address[1] && address[2] == ':')
		address += 3;
	snprintf(bare, RBD_SESSION_VALUE_MAX, "%.*s", (int)strcspn(address, ","), address);
}

static int blocklist(struct rbd_cluster *cluster, const char *address, struct cairn_err *err)
{
	char bare[RBD_SESSION_VALUE_MAX];
	int rc;

	bare_address(address, bare);
	rc = cluster->api->rados_blocklist_add(cluster->rados, bare, BLOCKLIST_S);
	if (rc >= 0)
		rc = cluster->api->rados_wait_for_latest_osdmap(cluster->rados);
	return rc < 0 ? rbd_api_err(err, rc, "fence the client %s", bare) : 0;
}

static int remove_locks(struct rbd_cluster *cluster, const char *id, struct cairn_err *err);

/* Recorded before the locks are removed: a process that takes one of them then sees that it has to
 * wait for the map that blocklists the dead process (rbd_locks.c). A storage daemon that
 * has an older map would still accept a late write of it. */
static int note_fence(struct rbd_cluster *cluster, const char *id, struct cairn_err *err)
{
	const struct rbd_api *api = cluster->api;
	rados_write_op_t op = api->rados_create_write_op();
	const char *keys[] = {RBD_LOCKS_FENCE};
	const size_t key_len = strlen(RBD_LOCKS_FENCE), len = strlen(id);
	int rc;

	api->rados_write_op_omap_set2(op, keys, &id, &key_len, &len, 1);
	rc = api->rados_write_op_operate(op, cluster->io, RBD_OBJECT_LOCKS, NULL,
					 LIBRADOS_OPERATION_FULL_TRY);
	api->rados_release_write_op(op);
	return rc < 0 ? rbd_api_err(err, rc, "note that a process was fenced") : 0;
}

int rbd_cluster_fence(struct rbd_cluster *cluster, const char *id, struct cairn_err *err)
{
	char address[RBD_SESSION_VALUE_MAX], mark[RBD_PROCESS_MARK_MAX];
	int rc = read_session(cluster, id, address, mark, err);

	if (!rc)
		rc = blocklist(cluster, address, err);
	else if (rc == CAIRN_NOT_FOUND) /* another process fenced it, or it has ended */
		rc = 0;
	if (!rc)
		rc = note_fence(cluster, id, err);
	if (!rc)
		rc = rbd_session_remove(cluster, id, err);
	return rc ? rc : remove_locks(cluster, id, err);
}

struct owner_match {
	struct rbd_cluster *cluster;
	char bare[RBD_SESSION_VALUE_MAX];
	char id[RBD_SESSION_ID_MAX];
};

static int match_session_address(void *arg, const char *id, struct cairn_err *err)
{
	struct owner_match *match = arg;
	char address[RBD_SESSION_VALUE_MAX], bare[RBD_SESSION_VALUE_MAX],
		mark[RBD_PROCESS_MARK_MAX];
	int rc = read_session(match->cluster, id, address, mark, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	bare_address(address, bare);
	if (strcmp(bare, match->bare) == 0)
		snprintf(match->id, sizeof(match->id), "%s", id);
	return 0;
}

int rbd_cluster_fence_dead_client(struct rbd_cluster *cluster, const char *address, bool *ret,
				  struct cairn_err *err)
{
	struct owner_match match = {.cluster = cluster};
	bool alive = true;
	int rc;

	bare_address(address, match.bare);
	rc = rbd_cluster_list_sessions(cluster, match_session_address, &match, err);
	if (!rc && match.id[0])
		rc = rbd_cluster_is_alive(cluster, match.id, &alive, err);
	if (!rc && !alive)
		rc = rbd_cluster_fence(cluster, match.id, err);
	*ret = !rc && !alive;
	return rc;
}

struct lock_sweep {
	struct rbd_cluster *cluster;
	const char *id;
};

static int remove_lock(void *arg, const char *key, const char *value, size_t n,
		       struct cairn_err *err)
{
	struct lock_sweep *sweep = arg;
	const struct rbd_api *api = sweep->cluster->api;
	rados_write_op_t op;
	const size_t len = strlen(key), id_len = strlen(sweep->id);
	int rc;

	if (n <= id_len || memcmp(value, sweep->id, id_len) != 0 || value[id_len] != '.')
		return 0;
	op = api->rados_create_write_op();
	api->rados_write_op_omap_cmp2(op, key, LIBRADOS_CMPXATTR_OP_EQ, value, len, n, NULL);
	api->rados_write_op_omap_rm_keys2(op, &key, &len, 1);
	rc = api->rados_write_op_operate(op, sweep->cluster->io, RBD_OBJECT_LOCKS, NULL, 0);
	api->rados_release_write_op(op);
	return rc < 0 && rc != -ECANCELED ? rbd_api_err(err, rc, "release a lock") : 0;
}

static int remove_locks(struct rbd_cluster *cluster, const char *id, struct cairn_err *err)
{
	struct lock_sweep sweep = {.cluster = cluster, .id = id};

	return rbd_omap_each(cluster, RBD_OBJECT_LOCKS, "", remove_lock, &sweep, err);
}

struct session_walk {
	const char *own;
	int (*fn)(void *arg, const char *id, struct cairn_err *err);
	void *arg;
};

static int visit_session(void *arg, const char *key, const char *value, size_t n,
			 struct cairn_err *err)
{
	const struct session_walk *walk = arg;

	(void)value;
	(void)n;
	return strcmp(key + 1, walk->own) == 0 ? 0 : walk->fn(walk->arg, key + 1, err);
}

int rbd_cluster_list_sessions(struct rbd_cluster *cluster,
			      int (*fn)(void *arg, const char *id, struct cairn_err *err),
			      void *arg, struct cairn_err *err)
{
	struct session_walk walk = {
		.own = cluster->has_session ? cluster->id : "", .fn = fn, .arg = arg};

	return rbd_omap_each(cluster, RBD_OBJECT_CATALOGUE, "s", visit_session, &walk, err);
}

struct session_sweep {
	struct rbd_cluster *cluster;
	unsigned n;
};

static int count_session(void *arg, const char *id, struct cairn_err *err)
{
	(void)id;
	(void)err;
	++*(unsigned *)arg;
	return 0;
}

static int sweep_session(void *arg, const char *id, struct cairn_err *err)
{
	struct session_sweep *sweep = arg;
	enum session_state state = SESSION_ALIVE;
	char address[RBD_SESSION_VALUE_MAX], mark[RBD_PROCESS_MARK_MAX] = "";

	if (sweep->n++ == SWEEP_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "enough");
	if (read_session(sweep->cluster, id, address, mark, NULL) == 0 &&
	    rbd_process_look(mark) == RBD_PROCESS_ENDED)
		state = SESSION_GONE;
	else if (ask_session(sweep->cluster, id, ANSWER_MS, &state, NULL) != 0)
		return 0;
	if (state == SESSION_GONE)
		(void)rbd_cluster_fence(sweep->cluster, id, NULL);
	return 0;
}

/* A failure leaves a session to the next process. */
void rbd_session_sweep(struct rbd_cluster *cluster)
{
	struct session_sweep sweep = {.cluster = cluster};
	unsigned n = 0;

	if (rbd_cluster_list_sessions(cluster, count_session, &n, NULL) == 0 && n >= SWEEP_FROM)
		(void)rbd_cluster_list_sessions(cluster, sweep_session, &sweep, NULL);
}
