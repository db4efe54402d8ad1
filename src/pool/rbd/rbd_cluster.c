/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_cluster.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/rbd/rbd_cluster_impl.h"

/* Waiting for the monitors, and for one operation of a storage daemon. An operation that
 * takes longer fails, and may still be carried out: the catalogue is then uncertain. */
#define CONNECT_TIMEOUT_S "30"
#define MON_TIMEOUT_S     "60"
#define OSD_TIMEOUT_S     "120"

const struct rbd_api *rbd_cluster_api(const struct rbd_cluster *cluster)
{
	return cluster->api;
}

rados_ioctx_t rbd_cluster_io(const struct rbd_cluster *cluster)
{
	return cluster->io;
}

rados_t rbd_cluster_rados(const struct rbd_cluster *cluster)
{
	return cluster->rados;
}

static int cluster_configure(struct rbd_cluster *cluster, const struct rbd_address *address,
			     struct cairn_err *err)
{
	const struct rbd_api *api = cluster->api;
	int rc = api->rados_create(&cluster->rados, address->user[0] ? address->user : NULL);

	if (rc < 0)
		return rbd_api_err(err, rc, "librados");
	rc = api->rados_conf_read_file(cluster->rados, address->conf[0] ? address->conf : NULL);
	if (rc < 0)
		return rbd_api_err(err, rc, "configuration of Ceph '%s'",
				   address->conf[0] ? address->conf : "/etc/ceph/ceph.conf");
	rc = api->rados_conf_parse_env(cluster->rados, NULL);
	if (rc < 0)
		return rbd_api_err(err, rc, "CEPH_ARGS");
	(void)api->rados_conf_set(cluster->rados, "client_mount_timeout", CONNECT_TIMEOUT_S);
	(void)api->rados_conf_set(cluster->rados, "rados_mon_op_timeout", MON_TIMEOUT_S);
	(void)api->rados_conf_set(cluster->rados, "rados_osd_op_timeout",
				  address->patient ? "0" : OSD_TIMEOUT_S);
	/* Writes wait for nothing but the storage daemons. */
	(void)api->rados_conf_set(cluster->rados, "rbd_cache", "false");
	return 0;
}

static int cluster_connect(struct rbd_cluster *cluster, const struct rbd_address *address,
			   struct cairn_err *err)
{
	const struct rbd_api *api = cluster->api;
	int rc = cluster_configure(cluster, address, err);

	if (rc)
		return rc;
	rc = api->rados_connect(cluster->rados);
	if (rc < 0)
		return rbd_api_err(err, rc, "connect to Ceph as '%s'",
				   address->user[0] ? address->user : "admin");
	rc = api->rados_ioctx_create(cluster->rados, address->pool, &cluster->io);
	if (rc < 0)
		return rbd_api_err(err, rc, "Ceph pool '%s'", address->pool);
	api->rados_ioctx_set_namespace(cluster->io, address->namespace);
	/* On a full cluster an operation that needs space fails instead of waiting, and one that
	 * does not is carried out: deleting must be possible. A disk waits. */
	if (!address->patient)
		api->rados_set_pool_full_try(cluster->io);
	return 0;
}

int rbd_cluster_open(const struct rbd_address *address, struct rbd_cluster **ret,
		     struct cairn_err *err)
{
	cairn_cleanup(rbd_cluster_closep) struct rbd_cluster *cluster =
		cairn_calloc(1, sizeof(*cluster));
	int rc;

	if (!cluster)
		return cairn_err_nomem(err, "pool");
	pthread_mutex_init(&cluster->mutex, NULL);
	rc = rbd_api_load(&cluster->api, err);
	if (!rc)
		rc = cluster_connect(cluster, address, err);
	if (rc)
		return rc;
	*ret = cairn_take(cluster);
	return 0;
}

int rbd_cluster_make_namespace(struct rbd_cluster *cluster, const struct rbd_address *address,
			       struct cairn_err *err)
{
	const struct rbd_api *api = cluster->api;
	rados_ioctx_t io;
	bool exists = false;
	int rc;

	if (!address->namespace[0])
		return 0;
	rc = api->rados_ioctx_create(cluster->rados, address->pool, &io);
	if (rc < 0)
		return rbd_api_err(err, rc, "Ceph pool '%s'", address->pool);
	rc = api->rbd_namespace_exists(io, address->namespace, &exists);
	if (rc >= 0 && !exists)
		rc = api->rbd_namespace_create(io, address->namespace);
	api->rados_ioctx_destroy(io);
	return rc < 0 && rc != -EEXIST ? rbd_api_err(err, rc, "namespace '%s'", address->namespace)
				       : 0;
}

void rbd_cluster_close(struct rbd_cluster *cluster)
{
	rbd_session_end(cluster);
	if (cluster->io)
		cluster->api->rados_ioctx_destroy(cluster->io);
	if (cluster->rados)
		cluster->api->rados_shutdown(cluster->rados);
	pthread_mutex_destroy(&cluster->mutex);
	free(cluster);
}
