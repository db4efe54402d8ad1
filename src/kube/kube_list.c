/* SPDX-License-Identifier: Apache-2.0 */

/* Calls on all objects of a kind. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/client_impl.h"
#include "kube/object.h"
#include "kube/transport.h"

#define PAGE_ITEMS     500
#define PATH_MAX_BYTES 65536

static void kube_list_add_number(struct cairn_buf *path, const char *name, uint64_t value)
{
	char text[24];

	if (value == 0)
		return;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	kube_query_add(path, name, text);
}

static int list_path(const struct kube_ref *ref, const struct kube_list_query *query,
		     const struct kube_call *how, struct cairn_buf *path, struct cairn_err *err)
{
	int rc = kube_ref_path(ref, path, err);

	if (rc)
		return rc;
	if (ref->name)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is one object, no list", ref->name);
	if (query) {
		kube_query_add(path, "labelSelector", query->label_selector);
		kube_query_add(path, "fieldSelector", query->field_selector);
		kube_query_add(path, "continue", query->continue_token);
		kube_list_add_number(path, "limit", query->limit);
		/* A continuation has its resource version in the token. */
		if (!query->continue_token || !query->continue_token[0]) {
			kube_query_add(path, "resourceVersion", query->resource_version);
			kube_query_add(path, "resourceVersionMatch", query->resource_version_match);
		}
	}
	if (how && how->dry_run)
		kube_query_add(path, "dryRun", "All");
	cairn_buf_addc(path, '\0');
	return cairn_buf_failed(path) ? cairn_err_nomem(err, "path") : 0;
}

int kube_list_page(struct kube_client *client, const struct kube_ref *ref,
		   const struct kube_list_query *query, const struct kube_call *how, json_t **ret,
		   struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(PATH_MAX_BYTES);
	struct kube_request request = {.method = "GET", .answer_max = KUBE_ANSWER_MAX};
	kube_auto_json json_t *page = NULL;
	int rc = list_path(ref, query, NULL, &path, err);

	if (rc)
		return rc;
	request.path = (const char *)path.data;
	rc = kube_execute_json(client, &request, how, &page, err);
	if (rc)
		return rc;
	/* Some servers write an empty list as null. */
	if (!json_is_array(json_object_get(page, "items")) &&
	    (kube_at(page, "items") || !json_is_object(page) ||
	     kube_set(page, err, json_array(), "items") < 0))
		return cairn_err_set(err, CAIRN_INTERNAL, "the server's answer is not a list");
	*ret = cairn_take(page);
	return 0;
}

/* Appends the items of `page` to `all`, which becomes the first page if it is NULL. */
static int kube_list_gather(json_t **all, json_t **page, struct cairn_err *err)
{
	json_t *items;

	if (!*all) {
		*all = cairn_take(*page);
		return 0;
	}
	items = json_object_get(*all, "items");
	if (json_array_extend(items, json_object_get(*page, "items")) < 0)
		return cairn_err_nomem(err, "list");
	if (json_array_size(items) > KUBE_LIST_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE, "more than %u objects", KUBE_LIST_MAX);
	return 0;
}

static int list_paged(struct kube_client *client, const struct kube_ref *ref,
		      const struct kube_list_query *query, const struct kube_call *how,
		      json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *all = NULL;
	kube_auto_json json_t *next = NULL; /* owns the token */
	struct kube_list_query one = *query;

	for (;;) {
		kube_auto_json json_t *page = NULL;
		const char *token;
		int rc = kube_list_page(client, ref, &one, how, &page, err);

		if (rc)
			return rc;
		json_decref(next);
		next = json_incref(kube_at(page, "metadata", "continue"));
		token = json_string_value(next);
		rc = kube_list_gather(&all, &page, err);
		if (rc)
			return rc;
		if (!token || !token[0])
			break;
		one.continue_token = token;
	}
	kube_remove(all, "metadata", "continue");
	kube_remove(all, "metadata", "remainingItemCount");
	*ret = cairn_take(all);
	return 0;
}

int kube_list(struct kube_client *client, const struct kube_ref *ref,
	      const struct kube_list_query *query, const struct kube_call *how, json_t **ret,
	      struct cairn_err *err)
{
	struct kube_list_query whole = {0};
	struct cairn_err own = {0};
	int rc;

	if (!err)
		err = &own;
	if (query)
		whole = *query;
	if (whole.limit == 0)
		whole.limit = PAGE_ITEMS;
	rc = list_paged(client, ref, &whole, how, ret, err);
	if (rc != CAIRN_RANGE || whole.continue_token)
		return rc;
	/* The list expired between two pages. */
	whole.limit = 0;
	whole.resource_version = NULL;
	whole.resource_version_match = NULL;
	return kube_list_page(client, ref, &whole, how, ret, err);
}

int kube_delete_collection(struct kube_client *client, const struct kube_ref *ref,
			   const struct kube_list_query *query, const struct kube_call *how,
			   struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(PATH_MAX_BYTES);
	struct kube_request request = {.method = "DELETE", .answer_max = KUBE_ANSWER_MAX};
	int rc = list_path(ref, query, how, &path, err);

	if (rc)
		return rc;
	request.path = (const char *)path.data;
	return kube_execute_json(client, &request, how, NULL, err);
}
