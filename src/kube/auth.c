/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/auth.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/config_impl.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/timestamp.h"

/* Leaves *ret NULL for an empty list, and on failure. */
static int text_list(const char *const texts[], json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;

	if (!texts || !texts[0])
		return 0;
	list = json_array();
	for (size_t i = 0; list && texts[i]; i++)
		if (json_array_append_new(list, json_string(texts[i])) < 0)
			return cairn_err_nomem(err, "list");
	if (!list)
		return cairn_err_nomem(err, "list");
	*ret = cairn_take(list);
	return 0;
}

static json_t *review_new(const struct kube_resource *kind, json_t *spec)
{
	kube_auto_json json_t *object = kube_object_new(kind, NULL, NULL);

	if (kube_set(object, NULL, spec, "spec") < 0)
		return NULL;
	return cairn_take(object);
}

/* Wipes an object that contains a token; the caller must hold the only reference. */
static void auth_forget(json_t **object)
{
	kube_wipe_json(*object);
	json_decref(*object);
}

int kube_token_review(struct kube_client *client, const char *token, const char *const audiences[],
		      const struct kube_call *how, struct kube_token_review *ret,
		      struct cairn_err *err)
{
	cairn_cleanup(auth_forget) json_t *question = NULL;
	json_t *list = NULL;
	json_t *answer = NULL;
	int rc = text_list(audiences, &list, err);

	if (rc)
		return rc;
	question = review_new(&kube_tokenreviews,
			      json_pack("{s:s, s:o*}", "token", token, "audiences", list));
	if (!question)
		return cairn_err_nomem(err, "TokenReview");
	rc = kube_create(client, KUBE_REF(&kube_tokenreviews, NULL, NULL), question, how, &answer,
			 err);
	if (rc)
		return rc;
	/* The server's answer includes the token. */
	kube_wipe_json(kube_at(answer, "spec"));
	memset(ret, 0, sizeof(*ret));
	ret->object = answer;
	ret->authenticated = kube_is(answer, "status", "authenticated");
	ret->error = kube_str(answer, "status", "error");
	if (ret->authenticated) {
		ret->user = kube_at(answer, "status", "user");
		ret->audiences = kube_at(answer, "status", "audiences");
	}
	return 0;
}

bool kube_token_review_has(const struct kube_token_review *review, const char *audience)
{
	const json_t *item;
	size_t i;

	if (!review->authenticated)
		return false;
	json_array_foreach(review->audiences, i, item)
	{
		const char *text = json_string_value(item);

		if (text && strcmp(text, audience) == 0)
			return true;
	}
	return false;
}

void kube_token_review_done(struct kube_token_review *review)
{
	json_decref(review->object);
	memset(review, 0, sizeof(*review));
}

static json_t *auth_attributes(const struct kube_access *what)
{
	if (what->path)
		return json_pack("{s:{s:s, s:s*}}", "nonResourceAttributes", "path", what->path,
				 "verb", what->verb);
	return json_pack("{s:{s:s*, s:s*, s:s*, s:s*, s:s*, s:s*, s:s*}}", "resourceAttributes",
			 "verb", what->verb, "group", what->group, "version", what->version,
			 "resource", what->resource, "subresource", what->subresource, "namespace",
			 what->ns, "name", what->name);
}

/* Copies the UserInfo's fields under their names in a SubjectAccessReview. */
static int add_user(json_t *spec, const json_t *user, struct cairn_err *err)
{
	static const struct {
		const char *from, *to;
	} fields[] = {
		{"username", "user"}, {"uid", "uid"}, {"groups", "groups"}, {"extra", "extra"}};

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		json_t *value = kube_at(user, fields[i].from);

		if (value && json_object_set(spec, fields[i].to, value) < 0)
			return cairn_err_nomem(err, "SubjectAccessReview");
	}
	return 0;
}

static void note_reason(const json_t *answer, struct kube_access_answer *ret)
{
	const char *reason = kube_str(answer, "status", "reason");
	size_t n;

	snprintf(ret->reason, sizeof(ret->reason), "%s", reason ? reason : "");
	for (n = strlen(ret->reason); n > 0 && !cairn_utf8_valid(ret->reason, n); n--)
		ret->reason[n - 1] = '\0';
}

int kube_access_review(struct kube_client *client, const json_t *user,
		       const struct kube_access *what, const struct kube_call *how,
		       struct kube_access_answer *ret, struct cairn_err *err)
{
	const struct kube_resource *kind =
		user ? &kube_subjectaccessreviews : &kube_selfsubjectaccessreviews;
	kube_auto_json json_t *question = NULL;
	kube_auto_json json_t *answer = NULL;
	json_t *spec = auth_attributes(what);
	int rc = 0;

	if (spec && user)
		rc = add_user(spec, user, err);
	question = review_new(kind, spec);
	if (rc || !question)
		return rc ? rc : cairn_err_nomem(err, "SubjectAccessReview");
	rc = kube_create(client, KUBE_REF(kind, NULL, NULL), question, how, &answer, err);
	if (rc)
		return rc;
	memset(ret, 0, sizeof(*ret));
	ret->denied = kube_is(answer, "status", "denied");
	ret->allowed = kube_is(answer, "status", "allowed") && !ret->denied;
	note_reason(answer, ret);
	return 0;
}

int kube_whoami(struct kube_client *client, const struct kube_call *how, json_t **ret_user,
		struct cairn_err *err)
{
	kube_auto_json json_t *question = kube_object_new(&kube_selfsubjectreviews, NULL, NULL);
	kube_auto_json json_t *answer = NULL;
	json_t *user;
	int rc;

	if (!question)
		return cairn_err_nomem(err, "SelfSubjectReview");
	rc = kube_create(client, KUBE_REF(&kube_selfsubjectreviews, NULL, NULL), question, how,
			 &answer, err);
	if (rc)
		return rc;
	user = kube_at(answer, "status", "userInfo");
	if (!user)
		return cairn_err_set(err, CAIRN_INTERNAL, "the server's answer has no user");
	*ret_user = json_incref(user);
	return 0;
}

static json_t *token_question(const struct kube_token_request *request, struct cairn_err *err)
{
	kube_auto_json json_t *question = NULL;
	json_t *audiences = NULL;
	int rc = text_list(request->audiences, &audiences, err);

	if (rc)
		return NULL;
	question = json_pack("{s:s, s:s, s:{s:o*}}", "apiVersion", "authentication.k8s.io/v1",
			     "kind", "TokenRequest", "spec", "audiences", audiences);
	if (!question)
		return NULL;
	if (request->expiry_s &&
	    kube_set(question, err, json_integer((json_int_t)request->expiry_s), "spec",
		     "expirationSeconds") < 0)
		return NULL;
	if (request->bound_kind &&
	    kube_set(question, err,
		     json_pack("{s:s, s:s, s:s*, s:s*}", "apiVersion", "v1", "kind",
			       request->bound_kind, "name", request->bound_name, "uid",
			       request->bound_uid),
		     "spec", "boundObjectRef") < 0)
		return NULL;
	return cairn_take(question);
}

int kube_token_request(struct kube_client *client, const struct kube_token_request *request,
		       const struct kube_call *how, struct kube_token *ret, struct cairn_err *err)
{
	cairn_cleanup(auth_forget) json_t *answer = NULL;
	kube_auto_json json_t *question = token_question(request, err);
	const char *text;
	uint64_t expires_ns;
	int rc;

	if (!question)
		return cairn_err_nomem(err, "TokenRequest");
	rc = kube_create(
		client,
		KUBE_SUB(&kube_serviceaccounts, request->ns, request->service_account, "token"),
		question, how, &answer, err);
	if (rc)
		return rc;
	text = kube_str(answer, "status", "token");
	if (!text ||
	    !kube_time_parse(kube_str(answer, "status", "expirationTimestamp"), &expires_ns))
		return cairn_err_set(err, CAIRN_INTERNAL, "the server gave no token");
	ret->token = cairn_strdup(text);
	if (!ret->token)
		return cairn_err_nomem(err, "token");
	ret->expires_ns = expires_ns;
	return 0;
}

void kube_token_done(struct kube_token *token)
{
	kube_wipe(token->token);
	memset(token, 0, sizeof(*token));
}
