/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/reviewer.h"

#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/auth.h"
#include "kube/kube_client.h"
#include "kube/kube_wait.h"
#include "kube/object.h"

static int reviewer_review_token(void *self, const char *token, const char *audience,
				 const struct kube_wait *wait, json_t **ret_user,
				 struct cairn_err *err)
{
	const char *const audiences[] = {audience, NULL};
	const struct kube_call call = kube_wait_call(wait);
	struct kube_token_review review = {0};
	int rc = kube_token_review(self, token, audiences, &call, &review, err);

	if (rc == CAIRN_UNAUTHENTICATED) /* our own credentials were rejected; the token was not
	                                  * judged */
		return cairn_err_recode(err, CAIRN_INTERNAL);
	if (rc)
		return kube_wait_outcome(wait, rc, err);
	if (review.authenticated && review.user &&
	    (!audience || kube_token_review_has(&review, audience)))
		*ret_user = json_incref((json_t *)(uintptr_t)review.user);
	else
		rc = cairn_err_set(err, CAIRN_UNAUTHENTICATED, "the token is not good");
	kube_token_review_done(&review);
	return rc;
}

static int reviewer_review_access(void *self, const json_t *user, const struct kube_access *what,
				  const struct kube_wait *wait, struct kube_access_answer *ret,
				  struct cairn_err *err)
{
	const struct kube_call call = kube_wait_call(wait);

	return kube_wait_outcome(wait, kube_access_review(self, user, what, &call, ret, err), err);
}

static const struct kube_reviewer_ops client_ops = {
	.review_token = reviewer_review_token,
	.review_access = reviewer_review_access,
};

struct kube_reviewer kube_client_reviewer(struct kube_client *client)
{
	return (struct kube_reviewer){.ops = &client_ops, .self = client};
}
