/* SPDX-License-Identifier: Apache-2.0 */

/* Calls to a Kubernetes API server.
 *
 * Calls block the thread that makes them and are plain sequential code; any
 * number of threads share a client. All of them, watches too, go through few
 * connections that stay open (HTTP/2 where the server speaks it), so a call
 * costs no handshake.
 *
 * What fails is said in `struct cairn_err` with the code of a gRPC status; who
 * needs the server's own words asks for a `struct kube_status`.
 *
 *   CAIRN_INVALID          400, 413, 415, 422: the request is wrong
 *   CAIRN_UNAUTHENTICATED  401, after credentials were read afresh once
 *   CAIRN_DENIED           403
 *   CAIRN_NOT_FOUND        404
 *   CAIRN_UNIMPLEMENTED    405, 406
 *   CAIRN_EXISTS           409 AlreadyExists
 *   CAIRN_ABORTED          409 Conflict: changed meanwhile; read again and retry
 *   CAIRN_RANGE            410: the resource version or page is too old
 *   CAIRN_DEADLINE         the call's time is over, or 504
 *   CAIRN_CANCELLED        `check` said so, or the client is being shut down
 *   CAIRN_UNAVAILABLE      no connection, 429, 502, 503: back off and retry
 *   CAIRN_NO_SPACE         out of memory, or an answer over a limit
 *   CAIRN_INTERNAL         500, or an answer that is no Kubernetes object
 *
 * A call is repeated inside its deadline when the server says with Retry-After
 * that it did nothing (at most KUBE_RETRIES times, after the pause that it names
 * and a random one), when no connection could be made, and, for reads, when the
 * connection broke or a gateway failed (KUBE_BREAKS times, with growing pauses).
 * Every try passes the client's rate limit.
 *
 * Nothing here logs. Tokens, keys and secrets are in no error text.
 */
#ifndef CAIRN_KUBE_CLIENT_H
#define CAIRN_KUBE_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "kube/resource.h"

struct cairn_err;
struct kube_client;
struct kube_config;

#define KUBE_RETRIES 10
#define KUBE_BREAKS  4

/* The body of an answer, such as a page of a list. */
#define KUBE_ANSWER_MAX (64U << 20)

/* Items of one list over all its pages. */
#define KUBE_LIST_MAX 1000000U

/* A server that asks for a longer wait than this is not waited for. */
#define KUBE_RETRY_AFTER_MAX_MS 60000U

struct kube_client_options {
	const char *user_agent; /* NULL is "cairn" */
	double qps;             /* calls a second; 0 is 50, below 0 no limit */
	unsigned burst;         /* calls at once; 0 is twice qps */
	uint64_t timeout_ms;    /* of a call that names none; 0 is 30 s */
	bool http1;             /* do not offer HTTP/2 */
};

/* Takes what it needs from `config`, which may be freed afterwards. Connects
 * only with the first call. `options` may be NULL. */
int kube_client_new(const struct kube_config *config, const struct kube_client_options *options,
		    struct kube_client **ret, struct cairn_err *err);

/* Ends every call and watch with CAIRN_CANCELLED, now and from here on; from
 * any thread. */
void kube_client_shutdown(struct kube_client *client);

/* No call may be running, no watch and nothing else made of it be left.
 * Accepts NULL. */
void kube_client_free(struct kube_client *client);
CAIRN_DEFINE_CLEANUP(struct kube_client, kube_client_free);

/* The namespace of the configuration. */
const char *kube_client_namespace(const struct kube_client *client);

struct kube_client_stats {
	uint64_t requests;    /* sent, repetitions counted */
	uint64_t retries;     /* repetitions */
	uint64_t connections; /* opened */
	uint64_t limited_ns;  /* that calls waited for the rate limit, summed */
};

void kube_client_stats(struct kube_client *client, struct kube_client_stats *ret);

/* What the server said; `http` is 0 when it did not answer. */
struct kube_status {
	int http;
	char reason[64];  /* "AlreadyExists"; "" when it named none */
	bool retry_after; /* it said how long to wait: */
	uint64_t retry_ms;
	char next[4096]; /* of an expired list: where to go on, not consistently; or "" */
};

/* How a call is made. NULL, or all zero, is fine. */
struct kube_call {
	uint64_t timeout_ms; /* 0 is the client's, UINT64_MAX none */
	uint64_t
		deadline_ns; /* monotonic, such as net_call_deadline(); 0 and UINT64_MAX are none */

	/* Asked about every 50 ms of waiting, on the caller's thread: not 0 is a
	 * negative code with which the call ends, such as net_call_check()'s. */
	int (*check)(void *arg);
	void *check_arg;

	bool once;   /* never repeat */
	bool urgent; /* not subject to the client's rate limit: leases */

	struct kube_status *status; /* filled in both cases; may be NULL */

	/* For writes. */
	const char *field_manager;    /* NULL is the user agent */
	const char *field_validation; /* "Strict", "Warn", "Ignore"; NULL is the server's default */
	bool dry_run;
};

/* In all of these *ret is owned by the caller (json_decref), and `ret` may be
 * NULL where the answer is of no interest; `how` may be NULL. */

int kube_get(struct kube_client *client, const struct kube_ref *ref, const struct kube_call *how,
	     json_t **ret, struct cairn_err *err);

struct kube_list_query {
	const char *label_selector;
	const char *field_selector;
	const char *resource_version;       /* NULL: most recent; "0": any that is at hand */
	const char *resource_version_match; /* "Exact", "NotOlderThan" */
	uint64_t limit;                     /* items of a page; 0 is 500 for kube_list */
	const char *continue_token;
};

/* One page, or everything where query->limit is 0; the answer's
 * metadata.continue leads to the next. `query` may be NULL. */
int kube_list_page(struct kube_client *client, const struct kube_ref *ref,
		   const struct kube_list_query *query, const struct kube_call *how, json_t **ret,
		   struct cairn_err *err);

/* All pages as one list, consistent, with the resource version to watch from.
 * A list that expires between two pages is begun again, whole and in one page.
 * CAIRN_NO_SPACE when there are more than KUBE_LIST_MAX. */
int kube_list(struct kube_client *client, const struct kube_ref *ref,
	      const struct kube_list_query *query, const struct kube_call *how, json_t **ret,
	      struct cairn_err *err);

/* ref->name names the parent where a subresource is created ("token"), else
 * the object itself has its name, or metadata.generateName. */
int kube_create(struct kube_client *client, const struct kube_ref *ref, const json_t *object,
		const struct kube_call *how, json_t **ret, struct cairn_err *err);

/* Replaces the object. With metadata.resourceVersion in it, CAIRN_ABORTED when
 * somebody else was faster. */
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

/* Server-side apply: the fields in `object` become ours (how->field_manager),
 * whatever else is there stays. With `force` also those that others own; else
 * such a conflict is CAIRN_ABORTED. */
int kube_apply(struct kube_client *client, const struct kube_ref *ref, const json_t *object,
	       bool force, const struct kube_call *how, json_t **ret, struct cairn_err *err);

/* Reads the object, lets `change` work on it, writes it back, and begins again
 * when somebody else was faster (KUBE_RETRIES times, then CAIRN_ABORTED).
 * `change` returns 1 to write, 0 when nothing is to be done, or a negative code
 * that ends it. */
int kube_modify(struct kube_client *client, const struct kube_ref *ref,
		int (*change)(json_t *object, void *arg, struct cairn_err *err), void *arg,
		const struct kube_call *how, json_t **ret, struct cairn_err *err);

struct kube_delete_options {
	const char *uid;              /* only this very object, else CAIRN_ABORTED */
	const char *resource_version; /* only in this state, else CAIRN_ABORTED */
	const char *propagation;      /* "Background", "Foreground", "Orphan" */
	bool has_grace;
	uint64_t grace_s;
};

/* `options` may be NULL. */
int kube_delete(struct kube_client *client, const struct kube_ref *ref,
		const struct kube_delete_options *options, const struct kube_call *how,
		json_t **ret, struct cairn_err *err);

/* Deletes what `query` selects in one call; ref->name is NULL. */
int kube_delete_collection(struct kube_client *client, const struct kube_ref *ref,
			   const struct kube_list_query *query, const struct kube_call *how,
			   struct cairn_err *err);

/* Any other path, such as "/version" or "/readyz"; `path` is sent as it is. The
 * answer is its bytes, NUL-terminated beyond *ret_len; free() it. */
int kube_get_raw(struct kube_client *client, const char *path, const struct kube_call *how,
		 char **ret, size_t *ret_len, struct cairn_err *err);

#endif
