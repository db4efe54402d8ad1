/* SPDX-License-Identifier: Apache-2.0 */

/* Reviews of tokens and rights, as a table: decisions are tested without an API
 * server, and a filter before it can take questions in turn. Slots are called on
 * many threads. Failures have the codes of kube/client.h. */
#ifndef CAIRN_KUBE_REVIEWER_H
#define CAIRN_KUBE_REVIEWER_H

#include <jansson.h>

struct cairn_err;
struct kube_access;
struct kube_access_answer;
struct kube_client;
struct kube_wait;

struct kube_reviewer_ops {
	/* Is the token good for this audience (NULL: the API server's)? Gives its
	 * UserInfo, owned by the caller.
	 *
	 * CAIRN_UNAUTHENTICATED  it is not; never for our own credentials
	 */
	int (*review_token)(void *self, const char *token, const char *audience,
			    const struct kube_wait *wait, json_t **ret_user, struct cairn_err *err);

	/* May the user do that? No is an answer.
	 *
	 * CAIRN_DENIED  we ourselves may not ask
	 */
	int (*review_access)(void *self, const json_t *user, const struct kube_access *what,
			     const struct kube_wait *wait, struct kube_access_answer *ret,
			     struct cairn_err *err);
};

struct kube_reviewer {
	const struct kube_reviewer_ops *ops;
	void *self;
};

/* The one that asks the API server. The client is borrowed. */
struct kube_reviewer kube_client_reviewer(struct kube_client *client);

#endif
