/* SPDX-License-Identifier: Apache-2.0 */

/* Calls to a Kubernetes API server.
 *
 * Calls block the thread that makes them and are plain sequential code; any
 * number of threads share a client. All of them, watches too, go through few
 * connections that stay open (HTTP/2 where the server speaks it), so a call
 * costs no handshake.
 *
 * Errors are returned in `struct cairn_err` with the code of a gRPC status; a caller that
 * needs the server's own reason passes a `struct kube_status`.
 *
 *   CAIRN_INVALID          400, 413, 415, 422: the request is wrong
 *   CAIRN_UNAUTHENTICATED  401, after the credentials were reloaded once
 *   CAIRN_DENIED           403
 *   CAIRN_NOT_FOUND        404
 *   CAIRN_UNIMPLEMENTED    405, 406
 *   CAIRN_EXISTS           409 AlreadyExists
 *   CAIRN_ABORTED          409 Conflict: changed concurrently; read again and retry
 *   CAIRN_RANGE            410: the resource version or page is too old
 *   CAIRN_DEADLINE         the call's time is over, or 504
 *   CAIRN_CANCELLED        `check` returned it, or the client is shutting down
 *   CAIRN_UNAVAILABLE      no connection, 429, 502, 503: back off and retry
 *   CAIRN_NO_SPACE         out of memory, or an answer over a limit
 *   CAIRN_INTERNAL         500, or an answer that is not a Kubernetes object
 *
 * A call is repeated inside its deadline when the server says with Retry-After
 * that it did nothing (at most KUBE_RETRIES times, after the pause that it names
 * and a random one), when no connection could be made, and, for reads, when the
 * connection broke or a gateway failed (KUBE_BREAKS times, with growing pauses).
 * Every try passes the client's rate limit.
 *
 * Nothing here logs. Error texts never contain tokens, keys or secrets.
 */
#ifndef CAIRN_KUBE_CLIENT_H
#define CAIRN_KUBE_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/kube_resource.h"

struct cairn_err;
struct kube_client;
struct kube_config;

#define KUBE_RETRIES 10
#define KUBE_BREAKS  4

/* Limit of a response body, such as a page of a list. */
#define KUBE_ANSWER_MAX (64U << 20)

/* Limit of the items of one list over all its pages. */
#define KUBE_LIST_MAX 1000000U

/* If the server asks for a longer wait than this, the call fails instead. */
#define KUBE_RETRY_AFTER_MAX_MS 60000U

struct kube_client_options {
	const char *user_agent; /* NULL is "cairn" */
	double qps;             /* calls a second; 0 is 50, below 0 no limit */
	unsigned burst;         /* calls at once; 0 is twice qps */
	uint64_t timeout_ms;    /* of a call that sets none; 0 is 30 s */
	bool http1;             /* do not offer HTTP/2 */
};

/* Copies what it needs from `config`, which may be freed afterwards. The first call opens
 * the connection. `options` may be NULL. */
int kube_client_new(const struct kube_config *config, const struct kube_client_options *options,
		    struct kube_client **ret, struct cairn_err *err);

/* Ends all current and future calls and watches with CAIRN_CANCELLED. From any thread. */
void kube_client_shutdown(struct kube_client *client);

/* No call may be running, and no watch or other object made from the client may still
 * exist. Accepts NULL. */
void kube_client_free(struct kube_client *client);
CAIRN_DEFINE_CLEANUP(struct kube_client, kube_client_free);

/* The namespace from the configuration. */
const char *kube_client_namespace(const struct kube_client *client);

struct kube_client_stats {
	uint64_t requests;    /* requests sent, including retries */
	uint64_t retries;     /* requests that were retries */
	uint64_t connections; /* connections opened */
	uint64_t limited_ns;  /* total time that calls waited for the rate limit */
};

void kube_client_stats(struct kube_client *client, struct kube_client_stats *ret);

/* The server's own status; `http` is 0 if no answer came. */
struct kube_status {
	int http;
	char reason[64];  /* "AlreadyExists"; "" if none was given */
	bool retry_after; /* the server sent Retry-After: */
	uint64_t retry_ms;
	char next[4096]; /* for an expired list: token for an inconsistent continuation; or "" */
};

/* Options of a call. NULL or all zero selects the defaults. */
struct kube_call {
	uint64_t timeout_ms; /* 0 is the client's, UINT64_MAX none */
	uint64_t
		deadline_ns; /* monotonic, such as net_call_deadline(); 0 and UINT64_MAX: no deadline */

	/* Called about every 50 ms while waiting, on the caller's thread. A negative return value,
	 * such as that of net_call_check(), ends the call with that code. */
	int (*check)(void *arg);
	void *check_arg;

	bool once;   /* never retry */
	bool urgent; /* exempt from the client's rate limit: leases */

	struct kube_status *status; /* filled on success and failure; may be NULL */

	/* For writes. */
	const char *field_manager;    /* NULL is the user agent */
	const char *field_validation; /* "Strict", "Warn", "Ignore"; NULL is the server's default */
	bool dry_run;
};

/* In all of these functions the caller owns *ret (json_decref). `ret` may be NULL if the
 * answer is not needed; `how` may be NULL. */

int kube_get(struct kube_client *client, const struct kube_ref *ref, const struct kube_call *how,
	     json_t **ret, struct cairn_err *err);

struct kube_list_query {
	const char *label_selector;
	const char *field_selector;
	const char *resource_version;       /* NULL: most recent; "0": any cached version */
	const char *resource_version_match; /* "Exact", "NotOlderThan" */
	uint64_t limit;                     /* items of a page; 0 is 500 for kube_list */
	const char *continue_token;
};

/* Returns one page, or everything if query->limit is 0; metadata.continue of the answer is
 * the token for the next page. `query` may be NULL. */
int kube_list_page(struct kube_client *client, const struct kube_ref *ref,
		   const struct kube_list_query *query, const struct kube_call *how, json_t **ret,
		   struct cairn_err *err);

/* Returns all pages as one consistent list, with the resource version to watch from. If
 * the list expires between two pages, it is read again in a single page. CAIRN_NO_SPACE if
 * there are more than KUBE_LIST_MAX items. */
int kube_list(struct kube_client *client, const struct kube_ref *ref,
	      const struct kube_list_query *query, const struct kube_call *how, json_t **ret,
	      struct cairn_err *err);

/* For a subresource ("token"), ref->name is the parent's name; otherwise the object
 * contains its own name or metadata.generateName. */
int kube_create(struct kube_client *client, const struct kube_ref *ref, const json_t *object,
		const struct kube_call *how, json_t **ret, struct cairn_err *err);

/* Replaces the object. If the object contains metadata.resourceVersion, a concurrent
 * change is reported as CAIRN_ABORTED. */
int kube_update(struct kube_client *client, const struct kube_ref *ref, const json_t *object,
		const struct kube_call *how, json_t **ret, struct cairn_err *err);

enum kube_patch_kind {
	KUBE_PATCH_MERGE, /* RFC 7386 */
	KUBE_PATCH_JSON,  /* RFC 6902 */
	KUBE_PATCH_STRATEGIC,
	KUBE_PATCH_APPLY, /* server-side apply */
};

int kube_patch(struct kube_client *client, const struct kube_ref *ref, enum kube_patch_kind kind,
	       const json_t *patch, const struct kube_call *how, json_t **ret,
	       struct cairn_err *err);

/* Server-side apply: the fields in `object` become owned by how->field_manager, all other
 * fields keep their values. `force` also takes fields that other managers own; without it
 * such a conflict is CAIRN_ABORTED. */
int kube_apply(struct kube_client *client, const struct kube_ref *ref, const json_t *object,
	       bool force, const struct kube_call *how, json_t **ret, struct cairn_err *err);

/* Reads the object, calls `change` on it and writes it back. A conflicting write repeats
 * this up to KUBE_RETRIES times, then the result is CAIRN_ABORTED. `change` returns 1 to
 * write, 0 to leave the object as it is, or a negative code, which is returned. */
int kube_modify(struct kube_client *client, const struct kube_ref *ref,
		int (*change)(json_t *object, void *arg, struct cairn_err *err), void *arg,
		const struct kube_call *how, json_t **ret, struct cairn_err *err);

struct kube_delete_options {
	const char *uid;              /* only an object with this uid, else CAIRN_ABORTED */
	const char *resource_version; /* only this version, else CAIRN_ABORTED */
	const char *propagation;      /* "Background", "Foreground", "Orphan" */
	bool has_grace;
	uint64_t grace_s;
};

/* `options` may be NULL. */
int kube_delete(struct kube_client *client, const struct kube_ref *ref,
		const struct kube_delete_options *options, const struct kube_call *how,
		json_t **ret, struct cairn_err *err);

/* Deletes all objects that `query` selects in one call; ref->name is NULL. */
int kube_delete_collection(struct kube_client *client, const struct kube_ref *ref,
			   const struct kube_list_query *query, const struct kube_call *how,
			   struct cairn_err *err);

/* Reads any other path, such as "/version" or "/readyz"; `path` is sent unescaped. *ret is
 * the body, with a NUL after *ret_len bytes; free() it. */
int kube_get_raw(struct kube_client *client, const char *path, const struct kube_call *how,
		 char **ret, size_t *ret_len, struct cairn_err *err);

#endif
