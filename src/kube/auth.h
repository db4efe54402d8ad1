/* SPDX-License-Identifier: Apache-2.0 */

/* Authentication, authorization and service account tokens, as answered by the API server
 * (TokenReview, SubjectAccessReview, TokenRequest). Nothing is cached here; the caller
 * decides how long an answer may be reused. */
#ifndef CAIRN_KUBE_AUTH_H
#define CAIRN_KUBE_AUTH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct kube_call;
struct kube_client;

/* The result of a TokenReview. */
struct kube_token_review {
	bool authenticated;
	const json_t *user;      /* UserInfo: username, uid, groups, extra; NULL if rejected */
	const json_t *audiences; /* array of strings: the requested ones that match; or NULL */
	const char *error;       /* the reason, for a log; NULL if none was given */
	json_t *object;          /* owns the other fields */
};

/* Asks whether `token` is valid for one of the audiences (NULL-terminated; NULL or an
 * empty list means those of the API server). A rejected token is a result, not an error. A
 * server that does not support audiences also reports `authenticated`, so a caller that
 * passed audiences must check the answer with kube_token_review_has(). */
int kube_token_review(struct kube_client *client, const char *token, const char *const audiences[],
		      const struct kube_call *how, struct kube_token_review *ret,
		      struct cairn_err *err);

bool kube_token_review_has(const struct kube_token_review *review, const char *audience);
void kube_token_review_done(struct kube_token_review *review);

/* The action to authorize. */
struct kube_access {
	const char *verb;
	const char *group;
	const char *version;
	const char *resource;
	const char *subresource;
	const char *ns;
	const char *name;
	const char *path; /* non-resource URL; then all others but `verb` are NULL */
};

struct kube_access_answer {
	bool allowed;
	bool denied;      /* explicitly denied, not only not allowed */
	char reason[256]; /* "" if none was given; truncated between characters */
};

/* Checks whether `user` (a UserInfo; NULL means our own account) may do `what`. A refusal
 * is a result, not an error. */
int kube_access_review(struct kube_client *client, const json_t *user,
		       const struct kube_access *what, const struct kube_call *how,
		       struct kube_access_answer *ret, struct cairn_err *err);

/* Our own UserInfo. */
int kube_whoami(struct kube_client *client, const struct kube_call *how, json_t **ret_user,
		struct cairn_err *err);

struct kube_token_request {
	const char *ns;
	const char *service_account;
	const char *const *audiences; /* NULL-terminated; NULL: those of the API server */
	uint64_t expiry_s;            /* 0 is the server's default; the server's minimum is 600 */

	/* The token is valid only while this object exists; NULL binds it to its account alone. */
	const char *bound_kind; /* "Pod", "Secret", "Node" */
	const char *bound_name;
	const char *bound_uid;
};

struct kube_token {
	char *token;
	uint64_t expires_ns; /* since 1970 */
};

int kube_token_request(struct kube_client *client, const struct kube_token_request *request,
		       const struct kube_call *how, struct kube_token *ret, struct cairn_err *err);

/* Wipes the token. Also a cleanup function. */
void kube_token_done(struct kube_token *token);

#endif
