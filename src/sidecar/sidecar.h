/* SPDX-License-Identifier: Apache-2.0 */

/* The snapshot-metadata sidecar: SnapshotMetadata over TLS in front of a CSI
 * driver's socket.
 *
 * A call is checked (token, right, names), translated, and then copied: the
 * driver's messages go to the caller as bytes, looked at on the way and never
 * decoded. It is a stand-in for the Go sidecar external-snapshot-metadata; where
 * the two differ is told in the man page.
 *
 * Made, started, drained and freed by one thread.
 */
#ifndef CAIRN_SIDECAR_SIDECAR_H
#define CAIRN_SIDECAR_SIDECAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "sidecar/kube.h"

struct cairn_err;
struct sidecar;
struct sidecar_sessions;

/* What waits for one caller at most, beside one message and the driver's window
 * (sidecar/driver.h): no caller is read ahead of further. */
#define SIDECAR_READ_AHEAD (128U << 10)

/* Questions to the API server at once, and of callers at one address. */
#define SIDECAR_QUESTIONS      64U
#define SIDECAR_QUESTIONS_EACH 32U

/* Calls that wait for such a place, and of one address. */
#define SIDECAR_QUESTIONS_WAITING      1024U
#define SIDECAR_QUESTIONS_WAITING_EACH 512U

/* Streams of one connection. */
#define SIDECAR_STREAMS_CONNECTION 512U

struct sidecar_options {
	struct sidecar_kube kube;             /* must outlive it */
	uint64_t (*api_requests)(void *self); /* how many kube made so far; NULL: not told */

	/* Callers. */
	const char *listen; /* "host:port", the host literal or empty for all */
	const char *tls_cert, *tls_key;
	const char *tls_min_version, *tls_ciphers, *tls_curves; /* NULL: defaults */
	const char *audience;  /* NULL or "": from the SnapshotMetadataService */
	uint64_t keep_ms;      /* answers about tokens, rights and names; 0: none */
	unsigned streams;      /* at once */
	unsigned streams_each; /* of one user */
	unsigned waiting;      /* streams that wait for a place */
	unsigned waiting_each; /* of one user */
	uint64_t wait_ms;      /* and how long */
	uint64_t stream_ms;    /* a stream's longest time; 0: none */
	bool owned_base;       /* refuse a base snapshot that Kubernetes does not know */

	/* Also serve the flavour of snapshot sessions; NULL: no. Must outlive it. */
	struct sidecar_sessions *sessions;

	/* Once, on a thread of the sidecar, when the driver's name is known; may be NULL. */
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

/* Starts to listen and to look for the driver; it need not be there yet. Texts
 * are borrowed for the sidecar's life. */
int sidecar_new(const struct sidecar_options *options, struct sidecar **ret, struct cairn_err *err);

/* Where it listens; 0 for HTTP when it does not. */
uint16_t sidecar_port(const struct sidecar *sidecar);
uint16_t sidecar_http_port(struct sidecar *sidecar);

/* Says NOT_SERVING, waits up to `grace_ms` for streams, cuts the rest off.
 * Returns how many those were. */
unsigned sidecar_drain(struct sidecar *sidecar, uint64_t grace_ms);

void sidecar_free(struct sidecar *sidecar); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar, sidecar_free);

#endif
