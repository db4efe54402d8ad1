/* SPDX-License-Identifier: Apache-2.0 */

/* Interface for token and access reviews, so that decisions can be tested without an API
 * server and a filter can queue reviews fairly. The slots are called from many threads.
 * Failures have the codes of kube/kube_client.h. */
#ifndef CAIRN_KUBE_REVIEWER_H
#define CAIRN_KUBE_REVIEWER_H

#include <jansson.h>

struct cairn_err;
struct kube_access;
struct kube_access_answer;
struct kube_client;
struct kube_wait;

struct kube_reviewer_ops {
	/* Checks that the token is valid for this audience (NULL: the API server's). Returns its
	 * UserInfo, owned by the caller.
	 *
	 * CAIRN_UNAUTHENTICATED  it is not valid; never because of our own credentials
	 */
	int (*review_token)(void *self, const char *token, const char *audience,
			    const struct kube_wait *wait, json_t **ret_user, struct cairn_err *err);

	/* Checks whether the user may do `what`. A refusal is a result, not an error.
	 *
	 * CAIRN_DENIED  our own account may not create reviews
	 */
	int (*review_access)(void *self, const json_t *user, const struct kube_access *what,
			     const struct kube_wait *wait, struct kube_access_answer *ret,
			     struct cairn_err *err);
};

struct kube_reviewer {
	const struct kube_reviewer_ops *ops;
	void *self;
};

/* The implementation that asks the API server. The client is borrowed. */
struct kube_reviewer kube_client_reviewer(struct kube_client *client);

#endif
