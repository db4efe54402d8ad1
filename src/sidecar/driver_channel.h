/* SPDX-License-Identifier: Apache-2.0 */

/* The CSI driver behind the sidecar.
 *
 * Holds channels to its socket, one on each loop of the server, so that a relay stays on
 * one thread; and a thread that reads the driver's name, checks that it offers
 * SnapshotMetadata, and probes it periodically. If the driver goes away, the channels
 * reconnect, and the sidecar is not ready until it answers. A driver that comes back under
 * another name never becomes ready, because callers were served in the name of the first
 * one.
 *
 * Thread-safe, except that one thread creates and frees it.
 */
#ifndef CAIRN_SIDECAR_DRIVER_H
#define CAIRN_SIDECAR_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct net_loop;
struct net_rpc;
struct net_server;
struct sidecar_driver;

/* HTTP/2 window of a stream from the driver: limits how far the driver may run ahead of a
 * slow caller, in addition to the data queued for that caller. */
#define SIDECAR_DRIVER_WINDOW (64U << 10)

/* Limit of the channels: one for each loop of the server. */
#define SIDECAR_LOOPS_MAX 8U

struct sidecar_driver_options {
	const char *address;       /* a socket's path, "unix://PATH" or "host:port" */
	struct net_server *server; /* its loops run the channels */
	uint64_t timeout_ms;       /* of unary calls */
	size_t message_max;        /* of one message from the driver */
	uint64_t probe_ms;         /* between probes of a ready driver; 0 is 5 s */
	/* Accept a driver without SNAPSHOT_METADATA_SERVICE: sessions are older than that
	 * capability. */
	bool sessions;

	/* Called on the driver's thread when readiness changes; `text` is the driver's name if it
	 * is ready, else the reason. */
	void (*changed)(void *arg, bool ready, const char *text);
	/* Called after each unary call, also before the name is known. `code` is the gRPC code, 0
	 * and up. */
	void (*called)(void *arg, const char *path, int code, uint64_t duration_ns);
	/* Called once, when the name is known. */
	void (*named)(void *arg, const char *name);
	void *arg;
};

/* Starts to connect to the driver. */
int sidecar_driver_new(const struct sidecar_driver_options *options, struct sidecar_driver **ret,
		       struct cairn_err *err);

/* Call it after the server was drained and before it is freed. Accepts NULL. */
void sidecar_driver_free(struct sidecar_driver *driver);
CAIRN_DEFINE_CLEANUP(struct sidecar_driver, sidecar_driver_free);

/* NULL until it is known; afterwards it never changes. */
const char *sidecar_driver_name(struct sidecar_driver *driver);

/* If it returns false, `why` has the reason; it may be NULL. */
bool sidecar_driver_ready(struct sidecar_driver *driver, char *why, size_t cap);

/* Reports that a call failed as if the driver were gone: probe it now. */
void sidecar_driver_doubt(struct sidecar_driver *driver);

/* Starts a stream of the method `path` with one request, on the channel of that loop.
 * `timeout_ms` 0 means no limit. */
int sidecar_driver_stream(struct sidecar_driver *driver, const struct net_loop *loop,
			  const char *path, const void *request, size_t n, uint64_t timeout_ms,
			  struct net_rpc **ret, struct cairn_err *err);

#endif
