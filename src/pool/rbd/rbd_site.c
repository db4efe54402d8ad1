/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_site.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "block/set.h"
#include "pool/device/attacher.h"
#include "pool/pool_impl.h"
#include "pool/rbd/rbd_attacher.h"
#include "pool/rbd/rbd_blobs.h"
#include "pool/rbd/rbd_catalogue.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_image.h"
#include "pool/rbd/rbd_locks.h"
#include "pool/rbd/rbd_store.h"
#include "pool/site.h"

/* Rounds of removing images: a clone goes before its parent. */
#define DESTROY_ROUNDS 64U

/* ---- the pool's configuration -------------------------------------------------- */

static int marker_read(struct rbd_cluster *cluster, struct marker *ret, struct cairn_err *err)
{
	char text[MARKER_BYTES_MAX + 1];
	int n = rbd_cluster_api(cluster)->rados_read(rbd_cluster_io(cluster), RBD_OBJECT_POOL, text,
						     MARKER_BYTES_MAX, 0);

	if (n < 0)
		return rbd_api_err(err, n, RBD_OBJECT_POOL);
	text[n] = '\0';
	return pool_config_decode(text, (size_t)n, ret, err);
}

/* `is_new`: CAIRN_EXISTS when there is one. */
static int marker_write(struct rbd_cluster *cluster, const struct marker *marker, bool is_new,
			struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(MARKER_BYTES_MAX);
	const struct rbd_api *api = rbd_cluster_api(cluster);
	rados_write_op_t op;
	int rc = pool_config_encode(marker, &text, err);

	if (rc)
		return rc;
	op = api->rados_create_write_op();
	if (is_new)
		api->rados_write_op_create(op, LIBRADOS_CREATE_EXCLUSIVE, NULL);
	api->rados_write_op_write_full(op, (const char *)text.data, text.len);
	rc = api->rados_write_op_operate(op, rbd_cluster_io(cluster), RBD_OBJECT_POOL, NULL, 0);
	api->rados_release_write_op(op);
	return rc < 0 ? rbd_api_err(err, rc, "write " RBD_OBJECT_POOL) : 0;
}

/* ---- create -------------------------------------------------------------------- */

static int check_create_spec(const struct pool_create_spec *spec, struct cairn_err *err)
{
	if (spec->image_size || spec->thin)
		return cairn_err_set(err, CAIRN_INVALID,
				     "a pool on Ceph has no image file: --size and --thin do not "
				     "apply");
	if (spec->backend != POOL_BACKEND_AUTO)
		return cairn_err_set(err, CAIRN_INVALID,
				     "a pool on Ceph has one back end: --backend does not apply");
	return spec->granularity ? pool_impl_check_granularity(spec->granularity, err) : 0;
}

/* A pool whose creation was interrupted is completed: all steps can be repeated. */
static int rbd_site_make(struct rbd_cluster *cluster, const struct pool_create_spec *spec,
			 struct cairn_err *err)
{
	struct marker marker = {
		.backend = "rbd",
		.image = "none",
		.retention_ms = spec->retention_ms ? spec->retention_ms : POOL_RETENTION_DEFAULT_MS,
		.granularity = spec->granularity ? spec->granularity : BLOCK_GRANULARITY_DEFAULT,
	};
	struct marker old = {0};
	int rc = cairn_random_hex(marker.id, 16, err);

	if (!rc)
		rc = marker_write(cluster, &marker, true, err);
	/* Also one that another process is making now: both must write the same. */
	if (rc == CAIRN_EXISTS && marker_read(cluster, &old, NULL) == 0 && !old.ready) {
		marker = old;
		rc = 0;
	}
	if (rc == CAIRN_EXISTS)
		return cairn_err_set(err, CAIRN_EXISTS, "there is a pool in '%s' already",
				     spec->dir);
	if (!rc)
		rc = rbd_catalogue_create(cluster, err);
	marker.ready = true;
	return rc ? rc : marker_write(cluster, &marker, false, err);
}

/* What the caller gives apart from the address takes precedence. */
static int add_options(struct rbd_address *address, const struct pool_create_spec *spec,
		       struct cairn_err *err)
{
	const char *conf = spec->ceph_conf ? spec->ceph_conf : address->conf;
	const char *user = spec->ceph_user ? spec->ceph_user : address->user;

	if (strlen(conf) >= sizeof(address->conf) || strlen(user) >= sizeof(address->user))
		return cairn_err_set(err, CAIRN_INVALID, "--ceph-conf or --ceph-user is too long");
	memmove(address->conf, conf, strlen(conf) + 1);
	memmove(address->user, user, strlen(user) + 1);
	return 0;
}

static int rbd_site_create(const struct pool_create_spec *spec, struct pool_create_result *ret,
			   struct cairn_err *err)
{
	cairn_cleanup(rbd_cluster_closep) struct rbd_cluster *cluster = NULL;
	struct rbd_address address;
	int rc = check_create_spec(spec, err);

	if (!rc)
		rc = rbd_address_parse(spec->dir, &address, err);
	if (!rc)
		rc = add_options(&address, spec, err);
	if (!rc)
		rc = rbd_cluster_open(&address, &cluster, err);
	if (!rc)
		rc = rbd_cluster_make_namespace(cluster, &address, err);
	if (!rc)
		rc = rbd_site_make(cluster, spec, err);
	if (rc)
		return rc;
	*ret = (struct pool_create_result){.backend = "rbd"};
	snprintf(ret->reason, sizeof(ret->reason), "images in the Ceph pool '%.100s'",
		 address.pool);
	return 0;
}

/* ---- open ---------------------------------------------------------------------- */

static int no_pool(const char *address, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_NOT_FOUND,
			     "there is no pool in '%s'; make one with: cairn pool create '%s'",
			     address, address);
}

static int read_ready_marker(struct rbd_cluster *cluster, const char *address, struct marker *ret,
			     struct cairn_err *err)
{
	int rc = marker_read(cluster, ret, err);

	if (rc == CAIRN_NOT_FOUND)
		return no_pool(address, err);
	if (!rc && !ret->ready)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "making the pool '%s' was interrupted; run again: cairn pool "
				     "create '%s'",
				     address, address);
	return rc;
}

static int rbd_site_absolute(const char *text, char *ret, size_t n, struct cairn_err *err);

static int open_attacher(struct pool *pool, struct rbd_cluster *cluster, const char *address,
			 struct cairn_err *err)
{
	char absolute[2 * PATH_MAX];
	struct rbd_attacher_spec spec = {.cluster = cluster,
					 .locks = pool->locks,
					 .address = absolute,
					 .pool_id = pool->marker.id};
	int rc = rbd_site_absolute(address, absolute, sizeof(absolute), err);

	return rc ? rc : rbd_attacher_open(&spec, &pool->attacher, err);
}

static int rbd_site_open(struct pool *pool, const struct pool_open_spec *spec,
			 struct cairn_err *err)
{
	struct rbd_cluster *cluster = NULL;
	struct rbd_address address = {0};
	int rc = rbd_address_parse(spec->dir, &address, err);

	pool->dir = cairn_printf(RBD_ADDRESS_PREFIX "%s%s%s", address.pool,
				 address.namespace[0] ? "/" : "", address.namespace);
	pool->root = cairn_strdup("");
	if (!rc && (!pool->dir || !pool->root))
		rc = cairn_err_nomem(err, "pool");
	if (!rc)
		rc = rbd_cluster_open(&address, &cluster, err);
	pool->site_data = cluster;
	if (!rc)
		rc = read_ready_marker(cluster, spec->dir, &pool->marker, err);
	if (!rc)
		rc = rbd_catalogue_open(cluster, !pool->read_only, &pool->cat, err);
	if (!rc)
		rc = rbd_store_open(cluster, !pool->read_only, &pool->store, err);
	if (!rc)
		rc = rbd_blobs_open(cluster, &pool->sets, err);
	if (!rc)
		rc = rbd_locks_open(cluster, &pool->locks, err);
	return rc ? rc : open_attacher(pool, cluster, spec->dir, err);
}

static void rbd_site_close(struct pool *pool)
{
	struct rbd_cluster *cluster = pool->site_data;

	rbd_cluster_closep(&cluster);
}

/* ---- destroy ------------------------------------------------------------------- */

static int refuse_alive(void *arg, const char *id, struct cairn_err *err)
{
	struct rbd_cluster *cluster = arg;
	bool alive = true;
	int rc = rbd_cluster_is_alive(cluster, id, &alive, err);

	if (!rc && alive)
		return cairn_err_set(err, CAIRN_PRECONDITION, "another process uses the pool");
	return rc ? rc : rbd_cluster_fence(cluster, id, err);
}

static int refuse_open_image(void *arg, const char *name, struct cairn_err *err)
{
	struct store_ref ref = {STORE_VOLUME, name};

	return rbd_image_is_ours(name) ? pool_attacher_refuse_attached(arg, ref, "it", err) : 0;
}

/* If one is in use nothing is removed. */
static int refuse_open(struct rbd_cluster *cluster, const char *pool_id, struct cairn_err *err)
{
	cairn_cleanup(pool_attacher_closep) struct attacher *attacher = NULL;
	struct rbd_attacher_spec spec = {.cluster = cluster, .address = "", .pool_id = pool_id};
	int rc = rbd_attacher_open(&spec, &attacher, err);

	return rc ? rc : rbd_image_each(cluster, refuse_open_image, attacher, err);
}

struct destruction {
	struct rbd_cluster *cluster;
	size_t left;
};

static int destroy_snapshot(void *arg, const char *name, struct cairn_err *err)
{
	struct rbd_image_handle *handle = arg;
	int rc = handle->api->rbd_snap_remove(handle->image, name);

	return rc < 0 && rc != -ENOENT ? rbd_api_err(err, rc, "remove snapshot '%s'", name) : 0;
}

static int destroy_image(void *arg, const char *name, struct cairn_err *err)
{
	struct destruction *destruction = arg;
	struct rbd_image_handle handle = {0};
	int rc;

	if (!rbd_image_is_ours(name))
		return 0;
	rc = rbd_image_open(destruction->cluster, name, true, &handle, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = rbd_image_each_snapshot(&handle, destroy_snapshot, &handle, err);
	rbd_image_done(&handle);
	if (!rc)
		rc = rbd_image_remove(destruction->cluster, name, err);
	if (rc > 0)
		destruction->left++;
	return rc < 0 ? rc : 0;
}

/* The configuration goes last: until then the pool can be destroyed again. */
static int destroy_objects(struct rbd_cluster *cluster, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(cluster);
	rados_ioctx_t io = rbd_cluster_io(cluster);
	rados_list_ctx_t list;
	const char *object;
	int end, rc = api->rados_nobjects_list_open(io, &list);

	if (rc < 0)
		return rbd_api_err(err, rc, "list the pool's objects");
	while ((end = api->rados_nobjects_list_next(list, &object, NULL, NULL)) == 0 && rc >= 0)
		if (strncmp(object, "cairn.", 6) == 0 && strcmp(object, RBD_OBJECT_POOL) != 0)
			rc = api->rados_remove(io, object);
	api->rados_nobjects_list_close(list);
	if (rc >= 0 && end != -ENOENT)
		rc = end;
	if (rc >= 0 || rc == -ENOENT)
		rc = api->rados_remove(io, RBD_OBJECT_POOL);
	return rc < 0 && rc != -ENOENT ? rbd_api_err(err, rc, "remove the pool's objects") : 0;
}

static int rbd_site_destroy(const char *text, struct cairn_err *err)
{
	cairn_cleanup(rbd_cluster_closep) struct rbd_cluster *cluster = NULL;
	struct destruction destruction = {.left = 1};
	struct rbd_address address;
	struct marker marker;
	int rc = rbd_address_parse(text, &address, err);

	if (!rc)
		rc = rbd_cluster_open(&address, &cluster, err);
	if (!rc)
		rc = marker_read(cluster, &marker, err);
	if (rc == CAIRN_NOT_FOUND && cluster)
		return no_pool(text, err);
	if (!rc)
		rc = rbd_cluster_list_sessions(cluster, refuse_alive, cluster, err);
	if (!rc)
		rc = refuse_open(cluster, marker.id, err);
	destruction.cluster = cluster;
	for (unsigned i = 0; i < DESTROY_ROUNDS && !rc && destruction.left > 0; i++) {
		destruction.left = 0;
		rc = rbd_image_each(cluster, destroy_image, &destruction, err);
	}
	if (!rc && destruction.left > 0)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "%zu images have clones outside of the pool",
				     destruction.left);
	return rc ? rc : destroy_objects(cluster, err);
}

static int rbd_site_absolute(const char *text, char *ret, size_t n, struct cairn_err *err)
{
	struct rbd_address address;
	char conf[PATH_MAX] = "";
	int rc = rbd_address_parse(text, &address, err);

	if (rc)
		return rc;
	if (address.conf[0] && !realpath(address.conf, conf))
		return cairn_err_sys(err, errno, "find '%s'", address.conf);
	snprintf(ret, n, RBD_ADDRESS_PREFIX "%s%s%s%s%s%s%s%s%s", address.pool,
		 address.namespace[0] ? "/" : "", address.namespace, address.user[0] ? ":id=" : "",
		 address.user, conf[0] ? ":conf=" : "", conf,
		 address.device == RBD_DEVICE_EXPORT ? "" : ":device=",
		 address.device == RBD_DEVICE_EXPORT ? "" : rbd_device_name(address.device));
	return 0;
}

const struct pool_site_ops rbd_site = {
	.name = "rbd",
	.create = rbd_site_create,
	.destroy = rbd_site_destroy,
	.open = rbd_site_open,
	.close = rbd_site_close,
	.absolute = rbd_site_absolute,
};
