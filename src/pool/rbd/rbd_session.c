/* SPDX-License-Identifier: Apache-2.0 */

/* This process's session. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/random.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_cluster_impl.h"
#include "pool/rbd/rbd_omap.h"
#include "pool/rbd/rbd_process.h"

/* Of the watch: a session whose connection broke is not asked for longer. The library
 * renews watches once in a tick. */
#define WATCH_TIMEOUT_S 30U

void rbd_session_key(const char *id, char key[RBD_SESSION_KEY_MAX])
{
	snprintf(key, RBD_SESSION_KEY_MAX, "s%s", id);
}

void rbd_session_object(const char *id, char object[64])
{
	snprintf(object, 64, RBD_OBJECT_SESSION "%s", id);
}

static void answer(void *arg, uint64_t notify_id, uint64_t handle, uint64_t notifier_id, void *data,
		   size_t n)
{
	struct rbd_cluster *cluster = arg;
	char object[64];

	(void)notifier_id;
	(void)data;
	(void)n;
	rbd_session_object(cluster->id, object);
	(void)cluster->api->rados_notify_ack(cluster->io, object, notify_id, handle, NULL, 0);
}

/* The watch is lost when the connection was lost for long: others may have taken this
 * process for dead. */
static void lose_watch(void *arg, uint64_t handle, int rc)
{
	struct rbd_cluster *cluster = arg;

	(void)handle;
	if (rc == -ESHUTDOWN)
		atomic_store(&cluster->fenced, true);
	else
		atomic_store(&cluster->watch_lost, true);
}

static int watch_begin(struct rbd_cluster *cluster)
{
	char object[64];

	rbd_session_object(cluster->id, object);
	return cluster->api->rados_watch3(cluster->io, object, &cluster->watch, answer, lose_watch,
					  WATCH_TIMEOUT_S, cluster);
}

/* Without its object the session was removed: this process counts as dead. */
static void watch_renew(struct rbd_cluster *cluster)
{
	int rc;

	if (!atomic_exchange(&cluster->watch_lost, false))
		return;
	(void)cluster->api->rados_unwatch2(cluster->io, cluster->watch);
	rc = watch_begin(cluster);
	if (rc == -ENOENT || rc == -ESHUTDOWN)
		atomic_store(&cluster->fenced, true);
	else if (rc < 0)
		atomic_store(&cluster->watch_lost, true);
}

void rbd_cluster_keep_session(struct rbd_cluster *cluster)
{
	cairn_scoped_lock(&cluster->mutex);
	if (cluster->has_session)
		watch_renew(cluster);
}

static int session_put(struct rbd_cluster *cluster, const char *value, struct cairn_err *err)
{
	const struct rbd_api *api = cluster->api;
	rados_write_op_t op = api->rados_create_write_op();
	char key[RBD_SESSION_KEY_MAX];
	const char *keys[] = {key}, *values[] = {value};
	const size_t key_lens[] = {strlen(cluster->id) + 1}, value_lens[] = {strlen(value)};
	int rc;

	rbd_session_key(cluster->id, key);
	api->rados_write_op_assert_exists(op);
	api->rados_write_op_omap_set2(op, keys, values, key_lens, value_lens, 1);
	rc = api->rados_write_op_operate(op, cluster->io, RBD_OBJECT_CATALOGUE, NULL, 0);
	api->rados_release_write_op(op);
	return rc < 0 ? rbd_api_err(err, rc, "begin a session in the catalogue") : 0;
}

/* An object without data, also on a full cluster: a deletion needs a session. */
static int make_session_object(struct rbd_cluster *cluster, const char *object)
{
	const struct rbd_api *api = cluster->api;
	rados_write_op_t op = api->rados_create_write_op();
	int rc;

	api->rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
	rc = api->rados_write_op_operate(op, cluster->io, object, NULL,
					 LIBRADOS_OPERATION_FULL_FORCE);
	api->rados_release_write_op(op);
	return rc;
}

static int session_begin(struct rbd_cluster *cluster, struct cairn_err *err)
{
	const struct rbd_api *api = cluster->api;
	char object[64], *address = NULL, mark[RBD_PROCESS_MARK_MAX], value[RBD_SESSION_VALUE_MAX];
	int rc = cairn_random_hex(cluster->id, (RBD_SESSION_ID_MAX - 1) / 2, err);

	if (rc)
		return rc;
	rbd_session_object(cluster->id, object);
	rc = make_session_object(cluster, object);
	if (rc >= 0)
		rc = watch_begin(cluster);
	if (rc >= 0)
		rc = api->rados_getaddrs(cluster->rados, &address);
	if (rc < 0)
		return rbd_api_err(err, rc, "begin a session in the pool");
	rbd_process_mark(mark);
	snprintf(value, sizeof(value), "%.250s %s", address, mark);
	free(address);
	rc = session_put(cluster, value, err);
	cluster->has_session = rc == 0;
	return rc;
}

int rbd_cluster_session(struct rbd_cluster *cluster, const char **ret_id, struct cairn_err *err)
{
	int rc = 0;

	cairn_scoped_lock(&cluster->mutex);
	if (cluster->has_session)
		watch_renew(cluster);
	if (atomic_load(&cluster->fenced))
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "this process was taken for dead and fenced; start it again");
	if (!cluster->has_session) {
		rc = session_begin(cluster, err);
		if (!rc)
			rbd_session_sweep(cluster);
	}
	if (!rc)
		*ret_id = cluster->id;
	return rc;
}

/* The value is an address and never empty, so a missing entry differs from it. */
void rbd_cluster_depend_on_session(rados_write_op_t op, const struct rbd_cluster *cluster,
				   const char *id)
{
	char key[RBD_SESSION_KEY_MAX];

	rbd_session_key(id, key);
	cluster->api->rados_write_op_omap_cmp2(op, key, LIBRADOS_CMPXATTR_OP_GT, "", strlen(key), 0,
					       NULL);
}

int rbd_session_remove(struct rbd_cluster *cluster, const char *id, struct cairn_err *err)
{
	const struct rbd_api *api = cluster->api;
	rados_write_op_t op = api->rados_create_write_op();
	char object[64], key[RBD_SESSION_KEY_MAX];
	const char *keys[] = {key};
	const size_t lens[] = {strlen(id) + 1};
	int rc;

	rbd_session_key(id, key);
	rbd_session_object(id, object);
	api->rados_write_op_assert_exists(op);
	api->rados_write_op_omap_rm_keys2(op, keys, lens, 1);
	rc = api->rados_write_op_operate(op, cluster->io, RBD_OBJECT_CATALOGUE, NULL, 0);
	api->rados_release_write_op(op);
	if (rc < 0 && rc != -ENOENT)
		return rbd_api_err(err, rc, "end a session");
	rc = api->rados_remove(cluster->io, object);
	return rc < 0 && rc != -ENOENT ? rbd_api_err(err, rc, "end a session") : 0;
}

void rbd_session_end(struct rbd_cluster *cluster)
{
	if (!cluster->has_session || atomic_load(&cluster->fenced))
		return;
	(void)cluster->api->rados_unwatch2(cluster->io, cluster->watch);
	(void)rbd_session_remove(cluster, cluster->id, NULL);
}
