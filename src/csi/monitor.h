/* SPDX-License-Identifier: Apache-2.0 */

/* Metrics, health and readiness of a driver over HTTP. */
#ifndef CAIRN_CSI_MONITOR_H
#define CAIRN_CSI_MONITOR_H

#include "base/cleanup.h"

struct cairn_err;
struct csi_driver;
struct csi_monitor;
struct csi_registration;
struct net_server;

/* Counts the calls of `server` (before it starts) and serves /metrics, /healthz
 * and /readyz on `address`, "host:port". `registration` may be NULL. All are
 * borrowed for the monitor's life. */
struct csi_monitor_options {
	const char *address;
	struct csi_driver *driver;
	struct net_server *server;
	const struct csi_registration *registration;
};

int csi_monitor_new(const struct csi_monitor_options *options, struct csi_monitor **ret,
		    struct cairn_err *err);
/* Stops the HTTP server. Call it before the other parts are freed, because it reads them.
 * Calls are counted until csi_monitor_free(). Accepts NULL. */
void csi_monitor_stop(struct csi_monitor *monitor);
/* Call it after the gRPC server was freed. */
void csi_monitor_free(struct csi_monitor *monitor);
CAIRN_DEFINE_CLEANUP(struct csi_monitor, csi_monitor_free);

#endif
