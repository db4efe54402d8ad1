/* SPDX-License-Identifier: Apache-2.0 */

/* The module of `cairn driver`: wiring of pools, CSI services and a gRPC server. */

#include "cmd/role.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "csi/driver.h"
#include "net/server.h"
#include "net/signals.h"
#include "proto/descriptors.h"

#define SOCKET_MODE 0660

/* The pool of --pool is called "default"; --pools adds others. Cuts `text`. */
static int read_pools(const char *first, char *text, struct csi_pool_spec *specs, size_t *ret_n,
		      struct cairn_err *err)
{
	char *item;
	size_t n = 0;

	specs[n++] = (struct csi_pool_spec){.name = "default", .dir = first};
	while (text && (item = strsep(&text, ","))) {
		char *equals = strchr(item, '=');

		if (!equals || equals == item || !equals[1])
			return cairn_err_set(err, CAIRN_INVALID, "--pools: '%s' is not NAME=DIR",
					     item);
		if (n == CSI_POOLS_MAX)
			return cairn_err_set(err, CAIRN_INVALID, "--pools: more than %u",
					     CSI_POOLS_MAX);
		*equals = '\0';
		specs[n++] = (struct csi_pool_spec){.name = item, .dir = equals + 1};
	}
	*ret_n = n;
	return 0;
}

static int make_driver(const struct role_driver_options *o, struct csi_driver **ret,
		       struct cairn_err *err)
{
	cairn_auto_free char *text = o->more_pools ? cairn_strdup(o->more_pools) : NULL;
	struct csi_pool_spec specs[CSI_POOLS_MAX];
	struct csi_options options = {
		.name = o->name,
		.version = o->version,
		.node_id = o->node_id,
		.pools = specs,
		.topology = o->topology,
		.fixed_length = o->fixed_length,
		.volumes_max = o->volumes_max,
	};
	int rc;

	if (o->more_pools && !text)
		return cairn_err_nomem(err, "driver");
	rc = read_pools(o->pool, text, specs, &options.n_pools, err);
	return rc ? rc : csi_driver_new(&options, ret, err);
}

static int start(struct csi_driver *driver, struct net_server *server, const char *path,
		 struct cairn_err *err)
{
	struct proto_bytes set = proto_descriptors_cairn();
	int rc = csi_driver_serve(driver, server, err);

	if (!rc)
		rc = net_server_add_reflection(server, set.data, set.len, err);
	if (!rc)
		rc = net_server_listen_unix(server, path, SOCKET_MODE, err);
	return rc ? rc : net_server_start(server, err);
}

__attribute__((visibility("default"))) int
cairn_role_driver(const struct role_driver_options *options, struct cairn_err *err)
{
	cairn_cleanup(csi_driver_freep) struct csi_driver *driver = NULL;
	cairn_cleanup(net_server_freep) struct net_server *server = NULL;
	struct net_server_options server_options = {.name = "csi"};
	sigset_t signals;
	int rc;

	net_signals_block(&signals);
	rc = make_driver(options, &driver, err);
	if (!rc)
		rc = net_server_new(&server_options, &server, err);
	if (!rc)
		rc = start(driver, server, options->endpoint, err);
	if (rc)
		return rc;
	cairn_log(CAIRN_LOG_INFO, "serving", CAIRN_STR("endpoint", options->endpoint_text),
		  CAIRN_STR("driver", options->name), CAIRN_STR("node", options->node_id));
	while (net_signals_wait(&signals, UINT64_MAX) == SIGHUP)
		;
	cairn_log(CAIRN_LOG_INFO, "stopping", CAIRN_U64("drain_ms", options->drain_ms));
	net_server_drain(server, options->drain_ms);
	return 0;
}
