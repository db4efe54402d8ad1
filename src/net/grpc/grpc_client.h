/* SPDX-License-Identifier: Apache-2.0 */

/* gRPC client.
 *
 * A channel is one connection to one target. It is established on first use and
 * re-established, with exponential back-off, when it breaks. Calls are
 * sequential code: start, send, receive until the end, read the status; each
 * step blocks its thread. Channels may be used from any thread; one call by one
 * thread at a time, except net_rpc_cancel().
 */
#ifndef CAIRN_NET_CLIENT_H
#define CAIRN_NET_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct net_channel;
struct net_loop;
struct net_rpc;
struct net_tls;

struct net_channel_options {
	const char *target;         /* "unix:/path", "unix:///path" or "host:port" */
	struct net_tls *tls;        /* NULL: cleartext, for unix or loopback only */
	const char *server_name;    /* for verification and :authority; NULL: from the target */
	struct net_loop *loop;      /* loop of the connection; NULL: a loop of its own */
	size_t message_max;         /* of one received message; 0 is 4 MiB */
	uint32_t stream_window;     /* 0 is 1 MiB */
	uint32_t connection_window; /* 0 is 4 MiB */
	size_t recv_bytes;          /* unread bytes at which flow control stops the server; 0 is 1
				     * MiB */
	size_t send_bytes;          /* queued bytes at which a sender blocks; 0 is 256 KiB */
	uint64_t connect_ms;        /* for one attempt; 0 is 20 s */
	uint64_t backoff_first_ms;  /* pause after the first failure; 0 is 1 s */
	uint64_t backoff_max_ms;    /* 1.6 times longer each time up to this; 0 is 120 s */
	uint64_t keepalive_ms;      /* silence during calls before a ping; 0 is 2 min */
	uint64_t keepalive_wait_ms; /* for its answer; 0 is 20 s */
};

/* Does not connect yet.
 *
 * CAIRN_INVALID  the target has none of the forms above, or cleartext would leave the host
 */
int net_channel_new(const struct net_channel_options *options, struct net_channel **ret,
		    struct cairn_err *err);

/* Calls still open fail with CAIRN_CANCELLED; they must be freed by their
 * threads, before or after. Accepts NULL. */
void net_channel_free(struct net_channel *channel);
CAIRN_DEFINE_CLEANUP(struct net_channel, net_channel_free);

/* Connects if it is not connected, and waits up to `wait_ms` for that.
 *
 * CAIRN_UNAVAILABLE  the target cannot be reached; the text says why
 * CAIRN_DEADLINE     not within that time
 */
int net_channel_connect(struct net_channel *channel, uint64_t wait_ms, struct cairn_err *err);

struct net_metadata_entry {
	const char *name; /* lower case; a "-bin" value is encoded here */
	const void *value;
	size_t len;
};

struct net_rpc_options {
	const char *path;    /* "/package.Service/Method" */
	uint64_t timeout_ms; /* sent as grpc-timeout; 0 or UINT64_MAX: no timeout */
	uint64_t grace_ms;   /* how much longer to wait for the server's own status */
	bool wait_for_ready; /* survive failed connection attempts until the deadline */
	bool identity_only;  /* do not offer gzip to the server */
	const struct net_metadata_entry *metadata;
	size_t n_metadata;
};

/* Starts a call; returns before it is connected. The caller must free it in any
 * case. A call that the server certainly did not process (refused, or above the
 * last stream of a GOAWAY) is retried automatically if its whole request is
 * still buffered.
 *
 * CAIRN_INVALID   illegal path or metadata
 * CAIRN_NO_SPACE  out of memory
 */
int net_rpc_start(struct net_channel *channel, const struct net_rpc_options *options,
		  struct net_rpc **ret, struct cairn_err *err);

/* Starts a call and sends its only message. Nothing has to be freed after a
 * failure, which is one of net_rpc_start() or net_rpc_send(). */
int net_rpc_request(struct net_channel *channel, const struct net_rpc_options *options,
		    const void *request, size_t n, struct net_rpc **ret, struct cairn_err *err);

/* Cancels the call if it still runs. Accepts NULL. */
void net_rpc_free(struct net_rpc *rpc);
CAIRN_DEFINE_CLEANUP(struct net_rpc, net_rpc_free);

/* Sends one message; `last` also ends our side. Blocks while the send buffer is
 * full. Fails with the call's status if the call has ended. */
int net_rpc_send(struct net_rpc *rpc, const void *data, size_t n, bool last, struct cairn_err *err);
int net_rpc_send_end(struct net_rpc *rpc, struct cairn_err *err);

/* Waits for a response message: 1 and its bytes, borrowed until the next
 * receive; 0 when the call ended with OK; else the call's status as a negative
 * code with its message in err. */
int net_rpc_recv(struct net_rpc *rpc, const uint8_t **ret_data, size_t *ret_len,
		 struct cairn_err *err);

/* Waits for the response headers; 0, or the status of a call that ended
 * without any. */
int net_rpc_headers(struct net_rpc *rpc, struct cairn_err *err);

/* May be called from any thread. */
void net_rpc_cancel(struct net_rpc *rpc);

/* A value from the response headers or, after the end, from the trailers;
 * borrowed; NULL when absent. "-bin" values are decoded. */
const char *net_rpc_metadata(const struct net_rpc *rpc, const char *name, size_t *ret_len);
const char *net_rpc_trailer(const struct net_rpc *rpc, const char *name, size_t *ret_len);

/* A unary call in one step: the response is owned by the caller (free()).
 *
 * CAIRN_UNIMPLEMENTED  also when the server answered OK without a message or with two
 */
int net_rpc_unary(struct net_channel *channel, const struct net_rpc_options *options,
		  const void *request, size_t n, uint8_t **ret_data, size_t *ret_len,
		  struct cairn_err *err);

#endif
