/* SPDX-License-Identifier: Apache-2.0 */

/* A call as its handler sees it.
 *
 * Everything here is for the one thread that runs the handler, and valid until
 * the handler returns; net_call_wake() alone is for any thread. Functions
 * that wait return
 *
 *   CAIRN_CANCELLED  the caller gave up, its connection broke, or the server
 *                    is being stopped
 *   CAIRN_DEADLINE   the call's deadline passed
 *   CAIRN_NO_SPACE   out of memory, or the message is over a limit
 *
 * and every later call returns the same. A handler then returns that code; the
 * peer was already told.
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
 * or a negative code: those above, CAIRN_UNIMPLEMENTED for an encoding we do
 * not know, CAIRN_INTERNAL for bytes that are no message. A unary or
 * server-streaming call has exactly one message. */
int net_call_recv(struct net_call *call, const uint8_t **ret_data, size_t *ret_len,
		  struct cairn_err *err);

/* Sends one message; blocks while too much waits for the peer. */
int net_call_send(struct net_call *call, const void *data, size_t n, struct cairn_err *err);

/* Encode in place: room for a message of at most `max` bytes in the output
 * buffer itself; blocks like send. What is written there becomes a message of
 * `n` <= max bytes with the commit that must follow before any other send, or
 * is forgotten by net_call_commit_none(). With `more` the bytes may wait for
 * company: say so when the next message follows at once. */
int net_call_reserve(struct net_call *call, size_t max, uint8_t **ret_at, struct cairn_err *err);
void net_call_commit(struct net_call *call, size_t n, bool more);
void net_call_commit_none(struct net_call *call);

/* Sends the response headers now, before the first message. Optional. */
int net_call_send_headers(struct net_call *call, struct cairn_err *err);

/* The request's metadata: the first value of a lower-case name, NUL-terminated
 * and borrowed; NULL when absent. The value of a "-bin" name is decoded;
 * *ret_len (may be NULL) tells its length. */
const char *net_call_metadata(const struct net_call *call, const char *name, size_t *ret_len);

/* The i-th entry, pseudo-headers and grpc- fields left out; false past the end. */
bool net_call_metadata_at(const struct net_call *call, size_t i, const char **ret_name,
			  const char **ret_value, size_t *ret_len);

/* Adds to the response headers (before the first message) or the trailers. The
 * bytes of a "-bin" name are encoded here.
 *
 * CAIRN_INVALID       no legal name (lower case, digits, "-_."), a reserved one, or
 *                     an illegal value
 * CAIRN_PRECONDITION  the headers have gone
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

const char *net_call_path(const struct net_call *call);
const char *net_call_authority(const struct net_call *call);

/* Monotonic nanoseconds (cairn_monotonic_ns); UINT64_MAX when there is none. */
uint64_t net_call_deadline(const struct net_call *call);

/* 0 while the call is wanted, else CAIRN_CANCELLED or CAIRN_DEADLINE. Cheap:
 * long computations ask now and then. */
int net_call_check(const struct net_call *call);

/* Waits until net_call_wake(), or `ms` went by (UINT64_MAX: no limit): both 0;
 * or a code above. A wake that came before the sleep ends it at once. */
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

/* The caller has proven who it is: its connection is no stranger's any more and
 * goes last when there are too many (net/shares.h). */
void net_call_trust(struct net_call *call);

const struct net_peer *net_call_peer(const struct net_call *call);

/* The loop of the call's connection. */
struct net_loop *net_call_loop(const struct net_call *call);

#endif
