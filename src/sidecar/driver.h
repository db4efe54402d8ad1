/* SPDX-License-Identifier: Apache-2.0 */

/* The CSI driver behind the sidecar.
 *
 * Channels to its socket, one on each loop of the server, so that a relay stays
 * on one thread; and a thread that learns the driver's name, looks whether it
 * offers SnapshotMetadata, and probes it again and again. A driver that goes
 * away is waited for: the channels connect again, and until it answers the
 * sidecar is not ready. A driver that comes back under another name never
 * becomes ready, because everything that was said to callers was about the
 * first one.
 *
 * Thread-safe, but made and freed by one thread.
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

/* How far the driver may be ahead of the slowest thing before it: the HTTP/2
 * window of a stream, on top of what waits for a caller. */
#define SIDECAR_DRIVER_WINDOW (64U << 10)

/* Channels: one for each loop of the server. */
#define SIDECAR_LOOPS_MAX 8U

struct sidecar_driver_options {
	const char *address;       /* a socket's path, "unix://PATH" or "host:port" */
	struct net_server *server; /* on whose loops the channels live */
	uint64_t timeout_ms;       /* of calls that are no streams */
	size_t message_max;        /* of one message from the driver */
	uint64_t probe_ms;         /* between probes of a driver that is well; 0 is 5 s */
	/* A driver that does not offer SNAPSHOT_METADATA_SERVICE is ready too: sessions
	 * came before there was such a capability. */
	bool sessions;

	/* On the driver's thread, when that changes; `text` is the driver's name when it is
	 * ready, else why it is not. */
	void (*changed)(void *arg, bool ready, const char *text);
	/* After each call that is no stream; before the name is known too. `code` is the
	 * gRPC code, 0 and up. */
	void (*called)(void *arg, const char *path, int code, uint64_t duration_ns);
	/* Once, when the name is known. */
	void (*named)(void *arg, const char *name);
	void *arg;
};

/* Starts to look for the driver. */
int sidecar_driver_new(const struct sidecar_driver_options *options, struct sidecar_driver **ret,
		       struct cairn_err *err);

/* After the server was drained and before it is freed. Accepts NULL. */
void sidecar_driver_free(struct sidecar_driver *driver);
CAIRN_DEFINE_CLEANUP(struct sidecar_driver, sidecar_driver_free);

/* NULL until it is known; then always the same. */
const char *sidecar_driver_name(struct sidecar_driver *driver);

/* When it is not, why. `why` may be NULL. */
bool sidecar_driver_ready(struct sidecar_driver *driver, char *why, size_t cap);

/* A call failed as if the driver were gone: look now. */
void sidecar_driver_doubt(struct sidecar_driver *driver);

/* Starts a stream of the method `path` with one request, on the channel of that
 * loop. `timeout_ms` 0 is none. */
int sidecar_driver_stream(struct sidecar_driver *driver, const struct net_loop *loop,
			  const char *path, const void *request, size_t n, uint64_t timeout_ms,
			  struct net_rpc **ret, struct cairn_err *err);

#endif
