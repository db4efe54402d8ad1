/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/route_requests.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "certificates/certificate_pair.h"
#include "certificates/route_authority.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define REQUESTS_TEXT_MAX    (64U << 10)
#define REQUESTS_PAGE        500U
#define REQUESTS_ANSWERS_MAX 500U /* in one pass: then the authority is looked at again */
#define REQUESTS_DENIALS_MAX 100U /* anybody may ask, and must not keep sidecars waiting */

static const struct kube_resource signing_requests = {
	.group = "certificates.k8s.io",
	.version = "v1",
	.plural = "certificatesigningrequests",
	.kind = "CertificateSigningRequest",
};

static bool requests_has_usage(const json_t *request, const char *usage)
{
	const json_t *list = kube_at(request, "spec", "usages"), *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		const char *text = json_string_value(one);

		if (text && strcmp(text, usage) == 0)
			return true;
	}
	return false;
}

int certificates_route_judge(const json_t *request, const char *account, const char **ret_node,
			     struct cairn_err *err)
{
	const char *user = kube_str(request, "spec", "username");
	const json_t *nodes = kube_at(request, "spec", "extra", CERTIFICATES_NODE_EXTRA);
	const char *node =
		json_array_size(nodes) == 1 ? json_string_value(json_array_get(nodes, 0)) : NULL;

	if (!user || strcmp(user, account) != 0)
		return cairn_err_set(err, CAIRN_DENIED, "only %s gets a certificate", account);
	if (!node || !*node)
		return cairn_err_set(err, CAIRN_DENIED,
				     "the token does not name a node; it must be the token of a "
				     "pod, in Kubernetes 1.30 or later");
	if (!requests_has_usage(request, "server auth") ||
	    !requests_has_usage(request, "client auth"))
		return cairn_err_set(err, CAIRN_DENIED,
				     "the usages must be server auth and client auth");
	*ret_node = node;
	return 0;
}

static int requests_add_condition(json_t *request, const char *type, const char *reason,
				  const char *message, struct cairn_err *err)
{
	json_t *list = kube_at(request, "status", "conditions");
	json_t *condition = json_pack("{s:s, s:s, s:s, s:s}", "type", type, "status", "True",
				      "reason", reason, "message", message);
	int rc = 0;

	if (!json_is_array(list)) {
		list = json_array();
		rc = kube_set(request, err, list, "status", "conditions");
	}
	if (rc || !condition || json_array_append_new(list, condition) != 0)
		return rc ? rc : cairn_err_nomem(err, "condition");
	return 0;
}

/* Adds a condition; *request becomes the object that the API server answers with. A request
 * is approved or denied once, and one that was approved can only fail. */
static int requests_decide(const struct certificates_route_requests *requests, json_t **request,
			   const char *type, const char *message, struct cairn_err *err)
{
	const char *part = strcmp(type, "Failed") == 0 ? "status" : "approval";
	json_t *made = NULL;
	int rc = requests_add_condition(*request, type, "CairnRoute", message, err);

	if (!rc)
		rc = kube_update(requests->client,
				 KUBE_SUB(&signing_requests, NULL, kube_name(*request), part),
				 *request, NULL, &made, err);
	if (rc)
		return rc;
	json_decref(*request);
	*request = made;
	return 0;
}

static int requests_refuse(const struct certificates_route_requests *requests, json_t **request,
			   const struct cairn_err *why, struct cairn_err *err)
{
	bool approved = kube_condition(*request, "Approved") != NULL;

	cairn_log(CAIRN_LOG_WARN, "certificate request denied",
		  CAIRN_STR("request", kube_name(*request)), CAIRN_STR("reason", why->msg));
	return requests_decide(requests, request, approved ? "Failed" : "Denied", why->msg, err);
}

static int requests_set_certificate(json_t *request, const char *crt, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(REQUESTS_TEXT_MAX);

	cairn_base64_add(&text, crt, strlen(crt));
	if (cairn_buf_failed(&text))
		return cairn_err_nomem(err, "certificate");
	return kube_set(request, err, json_stringn((const char *)text.data, text.len), "status",
			"certificate");
}

/* CAIRN_INVALID  what was asked for can never be signed */
static int requests_make(const struct certificates_route_requests *requests,
			 const struct certificates_pair *authority, const json_t *request,
			 const char *node, char **ret, struct cairn_err *err)
{
	const char *text = kube_str(request, "spec", "request");
	cairn_auto_free char *pem = text ? cairn_base64_text(text, strlen(text)) : NULL;
	struct certificates_validity validity;
	uint64_t now_s = requests->now_s, life_s = requests->life_s;

	if (certificates_authority_check(authority, now_s, &validity, err) != 0)
		return cairn_err_set(err, CAIRN_INTERNAL, "the authority cannot sign");
	if (life_s > validity.ends_s - now_s) /* no certificate outlives its authority */
		life_s = validity.ends_s - now_s;
	return certificates_authority_sign(authority, pem ? pem : "", node, now_s, life_s, ret,
					   err);
}

static int requests_sign(const struct certificates_route_requests *requests,
			 const struct certificates_pair *authority, json_t **request,
			 const char *node, struct cairn_err *err)
{
	cairn_auto_free char *crt = NULL;
	struct cairn_err why = {0};
	int rc = requests_make(requests, authority, *request, node, &crt, &why);

	if (rc == CAIRN_INVALID)
		return requests_refuse(requests, request, &why, err);
	if (rc || !crt)
		return cairn_err_set(err, rc ? rc : CAIRN_INTERNAL, "%s", why.msg);
	rc = requests_set_certificate(*request, crt, err);
	if (!rc)
		rc = kube_update(requests->client,
				 KUBE_SUB(&signing_requests, NULL, kube_name(*request), "status"),
				 *request, NULL, NULL, err);
	if (!rc)
		cairn_log(CAIRN_LOG_INFO, "certificate of a node signed", CAIRN_STR("node", node),
			  CAIRN_STR("request", kube_name(*request)));
	return rc;
}

static int requests_answer(const struct certificates_route_requests *requests,
			   const struct certificates_pair *authority, const json_t *found,
			   struct cairn_err *err)
{
	kube_auto_json json_t *request = kube_copy(found);
	struct cairn_err why = {0};
	const char *node = NULL;
	int rc = 0;

	if (!request)
		return cairn_err_nomem(err, "request");
	if (certificates_route_judge(request, requests->account, &node, &why) != 0)
		return requests_refuse(requests, &request, &why, err);
	if (!kube_condition(request, "Approved"))
		rc = requests_decide(requests, &request, "Approved",
				     "the node of the sidecar's pod", err);
	if (!rc) /* the answer replaced the object that `node` was borrowed from */
		rc = certificates_route_judge(request, requests->account, &node, err);
	return rc ? rc : requests_sign(requests, authority, &request, node, err);
}

static bool requests_is_answered(const json_t *request)
{
	return kube_str(request, "status", "certificate") || kube_condition(request, "Denied") ||
	       kube_condition(request, "Failed");
}

/* How many may still be answered in this pass. */
struct answers_left {
	unsigned good, denied;
};

static void requests_answer_page(const struct certificates_route_requests *requests,
				 const struct certificates_pair *authority, const json_t *page,
				 struct answers_left *left, struct cairn_err *first)
{
	const json_t *one;
	size_t i;

	json_array_foreach(kube_at(page, "items"), i, one)
	{
		struct cairn_err failed = {0};
		const char *node;
		unsigned *n;

		if (left->good == 0 || !atomic_load(requests->leads))
			return;
		if (requests_is_answered(one))
			continue;
		n = certificates_route_judge(one, requests->account, &node, NULL) == 0
			    ? &left->good
			    : &left->denied;
		if (*n == 0)
			continue;
		(*n)--;
		if (requests_answer(requests, authority, one, &failed) != 0 && !first->code)
			*first = failed;
	}
}

/* All pages: Kubernetes keeps answered requests for an hour, and anybody who may create requests
 * can put thousands before those of the sidecars. */
int certificates_route_answer(const struct certificates_route_requests *requests,
			      const struct certificates_pair *authority, struct cairn_err *err)
{
	cairn_auto_free char *token = NULL;
	struct answers_left left = {REQUESTS_ANSWERS_MAX, REQUESTS_DENIALS_MAX};
	struct cairn_err first = {0};
	bool more = true;

	while (more && left.good > 0 && atomic_load(requests->leads)) {
		const struct kube_list_query query = {.field_selector = requests->selector,
						      .limit = REQUESTS_PAGE,
						      .continue_token = token};
		kube_auto_json json_t *page = NULL;
		const char *next;
		int rc = kube_list_page(requests->client, KUBE_REF(&signing_requests, NULL, NULL),
					&query, NULL, &page, err);

		if (rc)
			return rc;
		requests_answer_page(requests, authority, page, &left, &first);
		next = kube_str(page, "metadata", "continue");
		more = next && *next;
		free(token);
		token = more ? cairn_strdup(next) : NULL;
		if (more && !token)
			return cairn_err_nomem(err, "requests");
	}
	return first.code ? cairn_err_set(err, first.code, "%s", first.msg) : 0;
}
