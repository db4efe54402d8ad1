/* SPDX-License-Identifier: Apache-2.0 */

/* The snapshot-metadata sidecar: SnapshotMetadata over TLS in front of a CSI
 * driver's socket.
 *
 * A call is checked (token, permission, names), translated, and then relayed: the driver's
 * messages are checked and passed to the caller as bytes, without being decoded to
 * objects. It replaces the Go sidecar external-snapshot-metadata; the man page lists the
 * differences.
 *
 * Created, started, drained and freed by one thread.
 */
#ifndef CAIRN_SIDECAR_SIDECAR_H
#define CAIRN_SIDECAR_SIDECAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "sidecar/kube.h"
#include "sidecar/route.h"

struct cairn_err;
struct sidecar;
struct sidecar_sessions;

/* Limit of the data queued for one caller, in addition to one message and the driver's
 * window (sidecar/driver_channel.h). A few relays that flow may have more (`flows` in
 * net/grpc/relay.h). */
#define SIDECAR_READ_AHEAD (128U << 10)

/* Concurrent queries to the API server, in total and for callers at one address. */
#define SIDECAR_QUESTIONS      64U
#define SIDECAR_QUESTIONS_EACH 32U

/* Calls that wait for a query, in total and from one address. */
#define SIDECAR_QUESTIONS_WAITING      1024U
#define SIDECAR_QUESTIONS_WAITING_EACH 512U

/* Limit of the streams on one connection. */
#define SIDECAR_STREAMS_CONNECTION 512U

struct sidecar_options {
	struct sidecar_kube kube;             /* must outlive it */
	uint64_t (*api_requests)(void *self); /* requests made by kube so far; NULL: not reported */
	const char *version;                  /* of this program, in the metrics; NULL: none */

	/* Callers. */
	const char *listen; /* "host:port", the host literal or empty for all */
	const char *tls_cert, *tls_key;
	const char *tls_min_version, *tls_ciphers, *tls_curves; /* NULL: defaults */
	const char *audience;  /* NULL or "": from the SnapshotMetadataService */
	uint64_t keep_ms;      /* caching of tokens, permissions and names; 0: none */
	unsigned streams;      /* concurrent streams */
	unsigned streams_each; /* of one user */
	unsigned waiting;      /* streams waiting for a place */
	unsigned waiting_each; /* of one user */
	uint64_t wait_ms;      /* and their timeout */
	uint64_t stream_ms;    /* time limit of a stream; 0: none */
	uint64_t resume_ms;    /* time for a driver to come back under a stream; 0: none */
	bool owned_base;       /* reject a base snapshot that Kubernetes does not know */

	/* Also serve the session flavour; NULL: no. Must outlive the sidecar. */
	struct sidecar_sessions *sessions;
	bool reflection; /* answer grpc.reflection, to any caller */

	/* Pass streams for snapshots of other nodes to their sidecars; without `node`: no. The map
	 * must outlive the sidecar. */
	struct {
		const char *node; /* our own */
		const char *listen;
		const char *cert_file, *key_file, *ca_file;
		struct sidecar_route_map map;
	} route;

	/* Called once, on a thread of the sidecar, when the driver's name is known; may be NULL. */
	void (*named)(void *arg, const char *driver);
	void *named_arg;

	/* The driver. */
	const char *csi_address;
	uint64_t csi_timeout_ms;
	size_t message_max; /* of one message from it */
	uint64_t probe_ms;  /* 0: the default */

	/* HTTP. */
	const char *http_listen;  /* NULL or "": no HTTP */
	const char *metrics_path; /* NULL: no metrics */
	bool http_tls;            /* with the same certificate */
};

/* Starts to listen and to connect to the driver, which need not run yet. Strings are
 * borrowed for the sidecar's life. */
int sidecar_new(const struct sidecar_options *options, struct sidecar **ret, struct cairn_err *err);

/* The ports it listens on; 0 for HTTP or other nodes if it does not. */
uint16_t sidecar_port(const struct sidecar *sidecar);
uint16_t sidecar_port_for_nodes(const struct sidecar *sidecar);
uint16_t sidecar_http_port(struct sidecar *sidecar);

/* Reports NOT_SERVING, waits up to `grace_ms` for streams and aborts those that are left.
 * Returns the number of aborted streams. */
unsigned sidecar_drain(struct sidecar *sidecar, uint64_t grace_ms);

void sidecar_free(struct sidecar *sidecar); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar, sidecar_free);

#endif
