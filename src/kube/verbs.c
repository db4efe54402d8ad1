/* SPDX-License-Identifier: Apache-2.0 */

/* Calls on one object. */
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/client_impl.h"
#include "kube/deadline.h"
#include "kube/object.h"
#include "kube/transport.h"

/* Limit of a path with its query; names have at most a few hundred bytes, continue tokens
 * a few thousand. */
#define PATH_MAX_BYTES 65536

/* Pauses between attempts to modify an object that others modify too. */
#define MODIFY_PAUSE_MIN_MS 10
#define MODIFY_PAUSE_MAX_MS 1000

/* The path of a write. `as_manager` adds the field manager. */
static int write_path(const struct kube_client *client, const struct kube_ref *ref,
		      const struct kube_call *how, bool as_manager, struct cairn_buf *path,
		      struct cairn_err *err)
{
	int rc = kube_ref_path(ref, path, err);

	if (rc)
		return rc;
	if (as_manager)
		kube_query_add(path, "fieldManager",
			       how && how->field_manager ? how->field_manager : client->user_agent);
	if (how && how->dry_run)
		kube_query_add(path, "dryRun", "All");
	if (how && as_manager)
		kube_query_add(path, "fieldValidation", how->field_validation);
	cairn_buf_addc(path, '\0');
	return cairn_buf_failed(path) ? cairn_err_nomem(err, "path") : 0;
}

struct sending {
	const char *method;
	const char *content_type;
	const json_t *body; /* NULL: no body */
};

static void wipe_text(char *text, size_t n)
{
	if (text)
		explicit_bzero(text, n);
	free(text);
}

static int verbs_send_json(struct kube_client *client, const char *path, const struct sending *what,
			   const struct kube_call *how, json_t **ret, struct cairn_err *err)
{
	struct kube_request request = {
		.method = what->method,
		.path = path,
		.answer_max = KUBE_ANSWER_MAX,
	};
	char *text = NULL;
	size_t n = 0;
	int rc;

	if (what->body) {
		text = kube_json_text(what->body, &n);
		if (!text)
			return cairn_err_nomem(err, "request");
		request.content_type = what->content_type ? what->content_type : "application/json";
		request.body = text;
		request.body_len = n;
	}
	rc = kube_execute_json(client, &request, how, ret, err);
	wipe_text(text, n); /* it may be a Secret or a token */
	return rc;
}

int kube_get(struct kube_client *client, const struct kube_ref *ref, const struct kube_call *how,
	     json_t **ret, struct cairn_err *err)
{
	const struct sending what = {.method = "GET"};
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(PATH_MAX_BYTES);
	int rc = write_path(client, ref, NULL, false, &path, err);

	return rc ? rc : verbs_send_json(client, (const char *)path.data, &what, how, ret, err);
}

int kube_create(struct kube_client *client, const struct kube_ref *ref, const json_t *object,
		const struct kube_call *how, json_t **ret, struct cairn_err *err)
{
	const struct sending what = {.method = "POST", .body = object};
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(PATH_MAX_BYTES);
	struct kube_ref into = *ref;
	int rc;

	/* Objects are created by a POST to the collection. */
	if (!into.subresource)
		into.name = NULL;
	rc = write_path(client, &into, how, true, &path, err);
	return rc ? rc : verbs_send_json(client, (const char *)path.data, &what, how, ret, err);
}

int kube_update(struct kube_client *client, const struct kube_ref *ref, const json_t *object,
		const struct kube_call *how, json_t **ret, struct cairn_err *err)
{
	const struct sending what = {.method = "PUT", .body = object};
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(PATH_MAX_BYTES);
	int rc = write_path(client, ref, how, true, &path, err);

	return rc ? rc : verbs_send_json(client, (const char *)path.data, &what, how, ret, err);
}

static int send_patch(struct kube_client *client, const struct kube_ref *ref,
		      const struct sending *what, bool force, const struct kube_call *how,
		      json_t **ret, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(PATH_MAX_BYTES);
	int rc = write_path(client, ref, how, true, &path, err);

	if (rc)
		return rc;
	if (force) {
		path.len--; /* the NUL */
		kube_query_add(&path, "force", "true");
		cairn_buf_addc(&path, '\0');
		if (cairn_buf_failed(&path))
			return cairn_err_nomem(err, "path");
	}
	return verbs_send_json(client, (const char *)path.data, what, how, ret, err);
}

int kube_patch(struct kube_client *client, const struct kube_ref *ref, enum kube_patch_kind kind,
	       const json_t *patch, const struct kube_call *how, json_t **ret,
	       struct cairn_err *err)
{
	static const char *const types[] = {
		[KUBE_PATCH_MERGE] = "application/merge-patch+json",
		[KUBE_PATCH_JSON] = "application/json-patch+json",
		[KUBE_PATCH_STRATEGIC] = "application/strategic-merge-patch+json",
		[KUBE_PATCH_APPLY] = "application/apply-patch+yaml",
	};
	const struct sending what = {.method = "PATCH", .content_type = types[kind], .body = patch};

	return send_patch(client, ref, &what, false, how, ret, err);
}

int kube_apply(struct kube_client *client, const struct kube_ref *ref, const json_t *object,
	       bool force, const struct kube_call *how, json_t **ret, struct cairn_err *err)
{
	const struct sending what = {
		.method = "PATCH", .content_type = "application/apply-patch+yaml", .body = object};

	return send_patch(client, ref, &what, force, how, ret, err);
}

static json_t *delete_body(const struct kube_delete_options *options)
{
	kube_auto_json json_t *body =
		json_pack("{s:s, s:s, s:s*}", "apiVersion", "v1", "kind", "DeleteOptions",
			  "propagationPolicy", options->propagation);
	int rc = body ? 0 : -1;

	if (!rc && (options->uid || options->resource_version))
		rc = kube_set(body, NULL,
			      json_pack("{s:s*, s:s*}", "uid", options->uid, "resourceVersion",
					options->resource_version),
			      "preconditions");
	if (!rc && options->has_grace)
		rc = kube_set(body, NULL, json_integer((json_int_t)options->grace_s),
			      "gracePeriodSeconds");
	return rc ? NULL : cairn_take(body);
}

int kube_delete(struct kube_client *client, const struct kube_ref *ref,
		const struct kube_delete_options *options, const struct kube_call *how,
		json_t **ret, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(PATH_MAX_BYTES);
	kube_auto_json json_t *body = NULL;
	struct sending what = {.method = "DELETE"};
	int rc;

	if (!ref->name)
		return cairn_err_set(err, CAIRN_INVALID, "no name to delete");
	if (options) {
		body = delete_body(options);
		if (!body)
			return cairn_err_nomem(err, "options");
		what.body = body;
	}
	rc = write_path(client, ref, how, false, &path, err);
	return rc ? rc : verbs_send_json(client, (const char *)path.data, &what, how, ret, err);
}

static int modify_once(struct kube_client *client, const struct kube_ref *ref,
		       int (*change)(json_t *object, void *arg, struct cairn_err *err), void *arg,
		       const struct kube_call *how, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc = kube_get(client, ref, how, &object, err);

	if (!rc)
		rc = change(object, arg, err);
	if (rc == 1)
		return kube_update(client, ref, object, how, ret, err);
	if (rc == 0 && ret)
		*ret = cairn_take(object);
	return rc;
}

int kube_modify(struct kube_client *client, const struct kube_ref *ref,
		int (*change)(json_t *object, void *arg, struct cairn_err *err), void *arg,
		const struct kube_call *how, json_t **ret, struct cairn_err *err)
{
	const struct kube_deadline patience =
		kube_deadline_of(how, client->timeout_ms, &client->shutdown);
	struct cairn_backoff backoff = {.first_ms = MODIFY_PAUSE_MIN_MS,
					.most_ms = MODIFY_PAUSE_MAX_MS};
	struct cairn_err own = {0};
	int rc;

	if (!err)
		err = &own;
	for (;;) {
		rc = modify_once(client, ref, change, arg, how, ret, err);
		if (rc != CAIRN_ABORTED || backoff.failures >= KUBE_RETRIES ||
		    kube_deadline_sleep(&patience, cairn_backoff_next(&backoff), NULL) < 0)
			return rc;
	}
}

int kube_get_raw(struct kube_client *client, const char *path, const struct kube_call *how,
		 char **ret, size_t *ret_len, struct cairn_err *err)
{
	const struct kube_request request = {
		.method = "GET",
		.path = path,
		.answer_max = KUBE_ANSWER_MAX,
	};
	cairn_cleanup(kube_exchange_freep) struct kube_exchange *exchange = NULL;
	size_t n;
	int rc = kube_execute(client, &request, how, &exchange, err);

	if (rc)
		return rc;
	n = kube_exchange_body(exchange)->len;
	*ret = cairn_buf_take_string(kube_exchange_body(exchange));
	if (!*ret)
		return cairn_err_nomem(err, "answer");
	if (ret_len)
		*ret_len = n;
	return 0;
}
