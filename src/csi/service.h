/* SPDX-License-Identifier: Apache-2.0 */

/* Definitions shared within this directory: the driver's fields, and the table of a unary
 * method. */
#ifndef CAIRN_CSI_SERVICE_H
#define CAIRN_CSI_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "csi/changeset_worker.h"
#include "csi/csi_driver.h"
#include "csi/data_token.h"
#include "csi/op_lock.h"
#include "net/grpc/grpc_server.h"
#include "pool/pool.h"

struct cairn_buf;
struct net_call;

struct csi_pool {
	char *name;
	struct pool *pool;
};

struct csi_driver {
	char *name;
	char *version;
	char *node_id;
	char *topology_key; /* NULL: no topology */
	bool node_expansion;
	uint64_t fixed_length;
	uint64_t volumes_max;
	unsigned older; /* of enum csi_older */
	uint64_t delta_block;
	uint64_t compare_max;
	uint32_t token_ttl_s;
	struct csi_token_key token_key; /* of the first pool; set only if `older` needs it */
	struct csi_pool *pools;
	size_t n_pools;
	struct csi_changeset_worker *completer;
	struct csi_turns turns;
	struct csi_unary_binding *bindings; /* arguments of the methods added to the server */
	size_t n_bindings;
};

/* A unary method: unpacks the request, calls `run` and packs its `reply`. */
struct csi_unary {
	const char *path;
	const ProtobufCMessageDescriptor *request;
	int (*run)(struct csi_driver *driver, const void *request, struct cairn_buf *reply,
		   struct cairn_err *err);
};

struct csi_unary_binding {
	struct csi_driver *driver;
	const struct csi_unary *method;
};

/* The methods of each service. */
extern const struct csi_unary csi_identity_methods[];
extern const struct csi_unary csi_controller_methods[];
extern const struct csi_unary csi_node_methods[];
extern const struct csi_unary csi_group_methods[];
extern const size_t csi_identity_n;
extern const size_t csi_controller_n;
extern const size_t csi_node_n;
extern const size_t csi_group_n;

/* A method with its own handler; its `arg` is the driver. */
struct csi_handler {
	const char *path;
	enum net_kind kind;
	net_handler handler;
	unsigned older; /* of enum csi_older: any of these enables it; 0: always enabled */
};

extern const struct csi_handler csi_handlers[];
extern const size_t csi_handlers_n;
bool csi_handler_is_on(const struct csi_driver *driver, const struct csi_handler *handler);

int csi_metadata_allocated(struct net_call *call, void *arg, struct cairn_err *err);
int csi_metadata_delta(struct net_call *call, void *arg, struct cairn_err *err);
int csi_session_allocated(struct net_call *call, void *arg, struct cairn_err *err);
int csi_session_delta(struct net_call *call, void *arg, struct cairn_err *err);
int csi_differential_get(struct net_call *call, void *arg, struct cairn_err *err);
int csi_deltas_list(struct net_call *call, void *arg, struct cairn_err *err);
int csi_block_get(struct net_call *call, void *arg, struct cairn_err *err);

/* Limit of a request: names, ids and a map of parameters. Bounds the memory that a peer
 * can make us use. */
#define CSI_REQUEST_MAX (256U << 10)
#define CSI_REPLY_MAX   (32U << 20)

/* Receives and unpacks a request; the caller frees it with proto_message_free(). */
int csi_request_recv(struct net_call *call, const ProtobufCMessageDescriptor *type,
		     ProtobufCMessage **ret, struct cairn_err *err);

/* Packs a reply of ours. */
int csi_reply(struct cairn_buf *reply, const ProtobufCMessage *message, struct cairn_err *err);

/* Finds an object by id in any of the pools; deleted ones are not found. */
int csi_find_volume(struct csi_driver *driver, const char *id, struct pool **ret_pool,
		    struct pool_volume *ret, struct cairn_err *err);
/* Takes the volume's turn before it looks the volume up; see csi_auto_turn. */
int csi_take_volume(struct csi_driver *driver, const char *id, struct csi_op_lock *turn,
		    struct pool **ret_pool, struct pool_volume *ret, struct cairn_err *err);
int csi_find_snapshot(struct csi_driver *driver, const char *id, struct pool **ret_pool,
		      struct pool_snapshot *ret, struct cairn_err *err);
/* The same, including tombstones; for the base of a delta. */
int csi_find_base(struct csi_driver *driver, const char *id, struct pool **ret_pool,
		  struct pool_snapshot *ret, struct cairn_err *err);

/* CAIRN_INVALID "... is missing" for an empty argument. */
int csi_require(const char *value, const char *what, struct cairn_err *err);
/* The same for a path, which must also be absolute and fit the kernel's limit. */
int csi_require_path(const char *value, const char *what, struct cairn_err *err);

#endif
