/* SPDX-License-Identifier: Apache-2.0 */

/* A call as its handler sees it.
 *
 * All functions are for the thread that runs the handler, and valid until the
 * handler returns; only net_call_wake() may be called from any thread.
 * Functions that wait return
 *
 *   CAIRN_CANCELLED  the caller gave up, its connection broke, or the server
 *                    is being stopped
 *   CAIRN_DEADLINE   the call's deadline passed
 *   CAIRN_NO_SPACE   out of memory, or the message is over a limit
 *
 * and every later call returns the same. A handler then returns that code; the
 * status was already sent to the peer.
 */
#ifndef CAIRN_NET_CALL_H
#define CAIRN_NET_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct cairn_err;
struct net_call;
struct net_loop;

/* Waits for the next request message. Returns 1 and the message, whose bytes
 * are borrowed until the next receive; 0 when the peer has sent its last one;
 * or a negative code: those above, CAIRN_UNIMPLEMENTED for an unknown encoding,
 * CAIRN_INTERNAL for malformed framing. A unary or server-streaming call has
 * exactly one message. */
int net_call_recv(struct net_call *call, const uint8_t **ret_data, size_t *ret_len,
		  struct cairn_err *err);

/* Sends one message; blocks while the send buffer is full. */
int net_call_send(struct net_call *call, const void *data, size_t n, struct cairn_err *err);

/* Encodes in place: reserves room for a message of at most `max` bytes in the
 * output buffer itself; blocks like send. The commit, which must follow before
 * any other send, turns the first `n` <= max bytes into a message;
 * net_call_commit_none() discards them. With `more` the bytes may be held back:
 * set it when the next message follows at once. */
int net_call_reserve(struct net_call *call, size_t max, uint8_t **ret_at, struct cairn_err *err);
void net_call_commit(struct net_call *call, size_t n, bool more);
void net_call_commit_none(struct net_call *call);

/* Blocks while the send buffer is full, at most until `end_ns` of the monotonic clock
 * (UINT64_MAX: no limit), then returns CAIRN_DEADLINE. */
int net_call_await_room(struct net_call *call, uint64_t end_ns, struct cairn_err *err);

/* Sends the response headers now, before the first message. Optional. */
int net_call_send_headers(struct net_call *call, struct cairn_err *err);

/* The request's metadata: the first value of a lower-case name, NUL-terminated
 * and borrowed; NULL when absent. The value of a "-bin" name is decoded;
 * *ret_len (may be NULL) is its length. */
const char *net_call_metadata(const struct net_call *call, const char *name, size_t *ret_len);

/* The i-th entry, not counting pseudo-headers and grpc- fields; false past the
 * end. */
bool net_call_metadata_at(const struct net_call *call, size_t i, const char **ret_name,
			  const char **ret_value, size_t *ret_len);

/* Adds to the response headers (before the first message) or the trailers. The
 * bytes of a "-bin" name are encoded here.
 *
 * CAIRN_INVALID       not a legal name (lower case, digits, "-_."), a reserved one, or
 *                     an illegal value
 * CAIRN_PRECONDITION  the headers have been sent
 * CAIRN_NO_SPACE      out of memory
 */
int net_call_add_header(struct net_call *call, const char *name, const void *value, size_t n,
			struct cairn_err *err);
int net_call_add_trailer(struct net_call *call, const char *name, const void *value, size_t n,
			 struct cairn_err *err);

/* Attaches grpc-status-details-bin (a serialized google.rpc.Status), sent when
 * the handler returns an error. */
int net_call_set_details(struct net_call *call, const void *status, size_t n,
			 struct cairn_err *err);

/* Drops the trailers and details that were added so far. */
void net_call_clear_trailers(struct net_call *call);

const char *net_call_path(const struct net_call *call);
const char *net_call_authority(const struct net_call *call);

/* Monotonic nanoseconds (cairn_monotonic_ns); UINT64_MAX when there is none. */
uint64_t net_call_deadline(const struct net_call *call);

/* 0 while the call is active, else CAIRN_CANCELLED or CAIRN_DEADLINE. Cheap;
 * long computations should poll it. */
int net_call_check(const struct net_call *call);

/* Waits until net_call_wake() is called or `ms` have passed (UINT64_MAX: no
 * limit), both of which return 0; or returns a code above. A wake before the
 * sleep ends it at once. */
int net_call_sleep(struct net_call *call, uint64_t ms, struct cairn_err *err);
void net_call_wake(struct net_call *call);

struct net_peer {
	bool is_unix;
	bool is_tls;
	pid_t pid; /* of a unix peer at connect time */
	uid_t uid;
	gid_t gid;
	char address[64];        /* "10.0.0.7:5123"; "unix" */
	const char *tls_subject; /* of a verified client certificate, or NULL */
};

/* Declares that the caller has authenticated: its connection no longer counts
 * as a stranger's and is among the last to be closed when there are too many
 * (net/shares.h). */
void net_call_trust(struct net_call *call);

const struct net_peer *net_call_peer(const struct net_call *call);

/* The loop of the call's connection. */
struct net_loop *net_call_loop(const struct net_call *call);

#endif
