/* SPDX-License-Identifier: Apache-2.0 */

/* Who somebody is, what they may do, and tokens for service accounts: the
 * questions that an API server answers for others. Nothing is kept here; caches
 * belong to who knows how long an answer may stand. */
#ifndef CAIRN_KUBE_AUTH_H
#define CAIRN_KUBE_AUTH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct kube_call;
struct kube_client;

/* What a TokenReview said. */
struct kube_token_review {
	bool authenticated;
	const json_t *user;      /* UserInfo: username, uid, groups, extra; NULL when not */
	const json_t *audiences; /* array of texts, those asked for that the token has; or NULL */
	const char *error;       /* why not, for a log; NULL when it said nothing */
	json_t *object;          /* the others are borrowed from it */
};

/* Asks whether `token` is good for one of the audiences (NULL-terminated; NULL
 * or none: those of the API server). A token that is no good is an answer, not
 * a failure. The server answers `authenticated` also when it knows nothing of
 * audiences, so a caller that named some must see one of them in the answer:
 * kube_token_review_has(). */
int kube_token_review(struct kube_client *client, const char *token, const char *const audiences[],
		      const struct kube_call *how, struct kube_token_review *ret,
		      struct cairn_err *err);

bool kube_token_review_has(const struct kube_token_review *review, const char *audience);
void kube_token_review_done(struct kube_token_review *review);

/* What somebody wants to do. */
struct kube_access {
	const char *verb;
	const char *group;
	const char *version;
	const char *resource;
	const char *subresource;
	const char *ns;
	const char *name;
	const char *path; /* of no resource; then the others but `verb` are NULL */
};

struct kube_access_answer {
	bool allowed;
	bool denied;      /* not only not allowed */
	char reason[256]; /* "" when it gave none; cut at a character */
};

/* May `user` (a UserInfo; NULL: we ourselves) do `what`? No is an answer. */
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
	uint64_t expiry_s;            /* 0 is the server's default; it takes 600 and more */

	/* The token dies with this object; NULL: only with its account. */
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

/* Wipes it. Also a cleanup function. */
void kube_token_done(struct kube_token *token);

#endif
