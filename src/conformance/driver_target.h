/* SPDX-License-Identifier: Apache-2.0 */

/* The driver under test: its connection and its capabilities.
 *
 * Every call has a time limit. The target tracks running calls, so that an interrupt can
 * cancel them; after conformance_target_stop() only calls of the clean-up are started. Thread-safe.
 */
#ifndef CAIRN_CONFORMANCE_TARGET_H
#define CAIRN_CONFORMANCE_TARGET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "conformance/csi_request.h"

struct cairn_buf;
struct cairn_err;
struct net_channel;
struct net_rpc;

#define TARGET_CALLS_MAX 64U /* limit of concurrent calls */

struct target {
	struct net_channel *channel;
	struct net_channel *narrow; /* with a small flow control window */
	uint64_t timeout_ms;
	struct request_map parameters;          /* of CreateVolume */
	struct request_map snapshot_parameters; /* of CreateSnapshot */
	struct request_map secrets;             /* of every call that takes secrets */

	/* Reported by the driver; conformance_target_learn() fills it. */
	char *name;
	char *version;
	char *node_id;
	struct request_map segments; /* of the node's topology */
	bool has_metadata;           /* SNAPSHOT_METADATA_SERVICE */
	bool has_topology;           /* volumes are not reachable from every node */
	bool can_attach;             /* ControllerPublishVolume */
	bool can_expand;
	bool can_list_snapshots;
	bool can_get_snapshot;
	bool can_group;
	bool must_stage;
	bool can_expand_node;

	_Atomic int stopped; /* a signal's number */
	_Atomic bool cleaning;

	pthread_mutex_t lock;
	struct net_rpc *calls[TARGET_CALLS_MAX]; /* guarded by the lock */
};

/* Connects within the time limit.
 *
 * CAIRN_UNAVAILABLE, CAIRN_DEADLINE  as net_channel_connect()
 */
int conformance_target_init(struct target *t, const char *endpoint, uint64_t timeout_ms,
			    struct cairn_err *err);
void conformance_target_done(struct target *t);

/* Queries names and capabilities. */
int conformance_target_learn(struct target *t, struct cairn_err *err);

struct target_call {
	const char *path;
	uint64_t timeout_ms; /* 0: the target's */
	uint64_t grace_ms;
	bool narrow;
};

/* Starts a call and sends its only request. Always end it with conformance_target_close(). */
int conformance_target_open(struct target *t, const struct target_call *call,
			    const struct cairn_buf *request, struct net_rpc **ret,
			    struct cairn_err *err);
void conformance_target_close(struct target *t, struct net_rpc *rpc);

/* Makes a unary call; the caller frees the response with proto_message_free(). An ABORTED
 * call is retried within the time limit. */
int conformance_target_unary(struct target *t, const char *path, const struct cairn_buf *request,
			     const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret,
			     struct cairn_err *err);

/* True if a call that ended with this code may still have had its effect. */
bool conformance_target_unsure(int code);

/* Cancels running calls; from any thread. */
void conformance_target_stop(struct target *t, int signo);

#endif
