/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/kube_gate.h"

#include "base/cleanup.h"
#include "kube/fair_queue.h"
#include "kube/kube_wait.h"

static int kube_gate_enter(const struct sidecar_kube_gate *g, const struct kube_wait *wait,
			   struct kube_fair_pass *pass, struct cairn_err *err)
{
	return wait->origin ? kube_fair_queue_enter(g->gate, wait->origin, wait, pass, err) : 0;
}

static int kube_gate_review_token(void *self, const char *token, const char *audience,
				  const struct kube_wait *wait, json_t **ret_user,
				  struct cairn_err *err)
{
	const struct sidecar_kube_gate *g = self;
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass pass = {0};
	int rc = kube_gate_enter(g, wait, &pass, err);

	return rc ? rc
		  : g->behind.ops->review_token(g->behind.self, token, audience, wait, ret_user,
						err);
}

static int kube_gate_review_access(void *self, const json_t *user, const struct kube_access *what,
				   const struct kube_wait *wait, struct kube_access_answer *ret,
				   struct cairn_err *err)
{
	const struct sidecar_kube_gate *g = self;
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass pass = {0};
	int rc = kube_gate_enter(g, wait, &pass, err);

	return rc ? rc : g->behind.ops->review_access(g->behind.self, user, what, wait, ret, err);
}

static int kube_gate_get(void *self, const struct kube_ref *ref, const struct kube_wait *wait,
			 json_t **ret, struct cairn_err *err)
{
	const struct sidecar_kube_gate *g = self;
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass pass = {0};
	int rc = kube_gate_enter(g, wait, &pass, err);

	return rc ? rc : g->behind.ops->get(g->behind.self, ref, wait, ret, err);
}

static int kube_gate_list(void *self, const struct kube_resource *resource,
			  const struct kube_wait *wait, json_t **ret, struct cairn_err *err)
{
	const struct sidecar_kube_gate *g = self;
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass pass = {0};
	int rc = kube_gate_enter(g, wait, &pass, err);

	return rc ? rc : g->behind.ops->list(g->behind.self, resource, wait, ret, err);
}

static int kube_gate_contents_of(void *self, const char *driver, const char *handle, bool sure,
				 const struct kube_wait *wait, json_t **ret, struct cairn_err *err)
{
	const struct sidecar_kube_gate *g = self;
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass pass = {0};
	int rc = kube_gate_enter(g, wait, &pass, err);

	return rc ? rc
		  : g->behind.ops->contents_of(g->behind.self, driver, handle, sure, wait, ret,
					       err);
}

static const struct sidecar_kube_ops ops = {
	.review_token = kube_gate_review_token,
	.review_access = kube_gate_review_access,
	.get = kube_gate_get,
	.list = kube_gate_list,
	.contents_of = kube_gate_contents_of,
};

struct sidecar_kube sidecar_kube_gate(struct sidecar_kube_gate *gate)
{
	return (struct sidecar_kube){.ops = &ops, .self = gate};
}
