/* SPDX-License-Identifier: Apache-2.0 */

/* A CSI driver that does what a test tells it, and a sidecar before it with a
 * made-up Kubernetes behind. Sockets, TLS and gRPC are real. */
#ifndef CAIRN_TESTS_UNIT_SIDECAR_DRIVER_H
#define CAIRN_TESTS_UNIT_SIDECAR_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "net/grpc/call.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/grpc_server.h"
#include "net/tls/tls_settings.h"
#include "sidecar/sidecar.h"
#include "sidecar_world.h"

struct sidecar_stage;

/* Answers a stream: the request's bytes as the driver got them. */
typedef int (*stage_script)(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
			    size_t n, struct cairn_err *err);

struct sidecar_stage {
	struct sidecar_world world;
	struct sidecar *sidecar;
	struct net_channel *channel; /* to the sidecar */
	struct net_tls *client_tls;
	char dir[64];
	char socket[96], cert[96], key[96], authority[96], target[64];

	struct net_server *driver; /* NULL while it is down */
	const char *driver_name;
	bool incapable;
	_Atomic bool starting; /* Probe says not yet */
	stage_script script;
	_Atomic unsigned sent;    /* messages the driver handed over */
	_Atomic unsigned running; /* its streams under way */
	_Atomic bool release;     /* lets streams that wait go on */
};

/* Makes the world and the certificate. */
void stage_prepare(struct sidecar_stage *s);

/* Starts the sidecar of a prepared stage; fields of `options` that are not 0 are
 * taken. Start the driver before, unless the test is about one that comes later:
 * a sidecar that finds no driver tries again only after a second. */
void stage_start(struct sidecar_stage *s, const struct sidecar_options *options);
void stage_stop(struct sidecar_stage *s);
void stage_driver_start(struct sidecar_stage *s);
void stage_driver_stop(struct sidecar_stage *s);

/* Waits until the sidecar says so. */
void stage_wait_ready(struct sidecar_stage *s, bool ready);

/* A call by Kubernetes names: delta when `base` is set. */
struct net_rpc *stage_call(struct sidecar_stage *s, const char *token, const char *base,
			   const char *snapshot, uint64_t timeout_ms);

/* Reads it to its end: the status; *ret_messages may be NULL. Frees it. */
int stage_finish(struct net_rpc *rpc, unsigned *ret_messages, struct cairn_err *err);

/* Body of a GET on the HTTP port, NUL-terminated and owned by the caller; the
 * status, or 0 when nobody listens. */
int stage_http(struct sidecar_stage *s, const char *path, char **ret_body);

/* Sends one message of `n` tuples of 4 KiB, 8 KiB apart, from tuple `first` on. */
int stage_send(struct sidecar_stage *s, struct net_call *call, uint64_t first, uint32_t n,
	       struct cairn_err *err);

#define STAGE_CAPACITY (1ULL << 50)

/* A script: one message, and no end before `release` is set. */
int stage_until_released(struct sidecar_stage *s, struct net_call *call, const uint8_t *request,
			 size_t n, struct cairn_err *err);

/* The starting offset of a request for allocated blocks. */
uint64_t stage_offset_of(const uint8_t *request, size_t n);

#endif
