/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/rest/rest.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/repo_http.h"
#include "repo/scan.h"

#define LIST_MAX ((size_t)1 << 30)

struct rest {
	struct repo_store store;
	struct repo_http *http;
	char *url; /* ends with '/' */
};

/* A request, its retries, and its result. */
struct call {
	struct rest *rest;
	struct repo_request request;
	struct repo_answer answer;
};

static int rest_try_call(void *arg, struct cairn_err *err)
{
	struct call *call = arg;
	int rc;

	if (call->request.text)
		cairn_buf_reset(call->request.text);
	rc = repo_http_do(call->rest->http, &call->request, &call->answer, err);
	return rc < 0 ? rc : repo_http_status(&call->answer, err);
}

/* Fills in the address: the directory of the kind and, if given, the file's name. */
static int rest_run(struct call *call, enum repo_file kind, const struct repo_id *name,
		    struct cairn_err *err)
{
	cairn_auto_free char *url = NULL;
	char hex[REPO_ID_TEXT_MAX] = "";

	if (name)
		repo_id_format(name, hex);
	url = cairn_printf("%s%s%s%s", call->rest->url, repo_file_name(kind),
			   kind == REPO_FILE_CONFIG ? "" : "/", hex);
	if (!url)
		return cairn_err_nomem(err, "a request");
	call->request.url = url;
	return repo_http_retry(call->rest->http, rest_try_call, call, err);
}

static int rest_create(struct repo_store *store, struct cairn_err *err)
{
	struct rest *rest = (struct rest *)store;
	cairn_auto_free char *url = cairn_printf("%s?create=true", rest->url);
	struct call call = {.rest = rest, .request = {.method = "POST", .url = url}};

	if (!url)
		return cairn_err_nomem(err, "a request");
	return repo_http_retry(rest->http, rest_try_call, &call, err);
}

static int rest_size(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		     uint64_t *ret_size, struct cairn_err *err)
{
	struct call call = {.rest = (struct rest *)store, .request = {.method = "HEAD"}};
	int rc = rest_run(&call, kind, name, err);

	return rc < 0 ? rc : repo_http_length(&call.answer, ret_size, err);
}

/* The server refuses a name that exists. That is a success if the file holds what we send:
 * the answer to an earlier attempt may have been lost. */
static int rest_put(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		    const void *data, size_t n, const struct repo_id *id_of_data,
		    struct cairn_err *err)
{
	struct call call = {.rest = (struct rest *)store,
			    .request = {.method = "POST", .body = data, .body_n = n}};
	struct cairn_err why = {0};
	uint64_t size;
	int rc = rest_run(&call, kind, name, &why);

	(void)id_of_data;
	if (rc == CAIRN_DENIED && kind == REPO_FILE_CONFIG &&
	    rest_size(store, kind, name, &size, NULL) == 0)
		return repo_store_holds(store, kind, name, data, n)
			       ? 0
			       : cairn_err_set(err, CAIRN_EXISTS, "there is one already");
	if (rc == CAIRN_DENIED && kind != REPO_FILE_CONFIG &&
	    rest_size(store, kind, name, &size, NULL) == 0 && size == n)
		return 0;
	return rc < 0 ? cairn_err_set(err, rc, "%s", why.msg) : 0;
}

static int rest_get(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		    uint64_t offset, void *out, size_t n, struct cairn_err *err)
{
	char range[REPO_HTTP_RANGE_MAX];
	const char *headers[] = {range, NULL};
	struct call call = {.rest = (struct rest *)store,
			    .request = {.method = "GET",
					.headers = headers,
					.out = out,
					.out_n = n,
					.offset = offset}};

	if (n == 0)
		return 0;
	repo_http_range(offset, n, range);
	return rest_run(&call, kind, name, err);
}

static int rest_get_all(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
			size_t max, uint8_t **ret_data, size_t *ret_n, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(max);
	struct call call = {.rest = (struct rest *)store,
			    .request = {.method = "GET", .text = &text}};
	int rc = rest_run(&call, kind, name, err);

	return rc < 0 ? rc : repo_http_take(&text, ret_data, ret_n, err);
}

static int rest_remove(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		       struct cairn_err *err)
{
	struct call call = {.rest = (struct rest *)store, .request = {.method = "DELETE"}};
	struct cairn_err why = {0};
	int rc = rest_run(&call, kind, name, &why);

	return rc < 0 && rc != CAIRN_NOT_FOUND ? cairn_err_set(err, rc, "%s", why.msg) : 0;
}

static int no_list(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_INTERNAL, "the server's listing is not understood");
}

int repo_rest_parse_list(const char *json, size_t n, repo_store_list_fn *fn, void *arg,
			 struct cairn_err *err)
{
	struct repo_scan scan;
	int rc = 0;

	repo_scan_init(&scan, json, n);
	if (repo_scan_null(&scan))
		return repo_scan_end(&scan) ? 0 : no_list(err);
	repo_scan_array(&scan);
	while (rc == 0 && repo_scan_element(&scan)) {
		struct repo_scan_text key, name = {.at = ""};
		struct repo_id id;
		uint64_t size = 0;

		repo_scan_object(&scan);
		while (repo_scan_member(&scan, &key)) {
			if (repo_scan_is(&key, "name"))
				repo_scan_string(&scan, &name);
			else if (repo_scan_is(&key, "size"))
				size = repo_scan_u64(&scan);
			else
				repo_scan_skip(&scan);
		}
		if (!repo_scan_failed(&scan) && repo_id_parse(name.at, name.n, &id))
			rc = fn(arg, &id, size, err);
	}
	return rc == 0 && !repo_scan_end(&scan) ? no_list(err) : rc;
}

static int rest_list(struct repo_store *store, enum repo_file kind, repo_store_list_fn *fn,
		     void *arg, struct cairn_err *err)
{
	static const char *const headers[] = {"Accept: application/vnd.x.restic.rest.v2", NULL};
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(LIST_MAX);
	struct call call = {.rest = (struct rest *)store,
			    .request = {.method = "GET", .headers = headers, .text = &text}};
	struct cairn_err why = {0};
	int rc = rest_run(&call, kind, NULL, &why);

	/* rclone lists a missing directory as empty, and returns 404 when listing
	 * failed: if that were taken for empty, a prune would delete everything. */
	if (rc == CAIRN_NOT_FOUND && !call.answer.rclone) {
		if (kind == REPO_FILE_SNAPSHOT)
			store->no_snapshots = true;
		return 0;
	}
	if (rc == CAIRN_NOT_FOUND)
		rc = CAIRN_UNAVAILABLE;
	if (rc < 0)
		return cairn_err_set(err, rc, "%s", why.msg);
	return repo_rest_parse_list(text.data ? (const char *)text.data : "", text.len, fn, arg,
				    err);
}

static void rest_close(struct repo_store *store)
{
	struct rest *rest = (struct rest *)store;

	repo_http_free(rest->http);
	free(rest->url);
	free(rest);
}

static const struct repo_store_ops rest_ops = {
	.name = "REST server",
	.close = rest_close,
	.create = rest_create,
	.put = rest_put,
	.get = rest_get,
	.size = rest_size,
	.remove = rest_remove,
	.list = rest_list,
	.get_all = rest_get_all,
};

int repo_rest_open(const struct repo_store_options *options, const char *url,
		   struct repo_store **ret, struct cairn_err *err)
{
	struct rest *rest = cairn_calloc(1, sizeof(*rest));
	size_t n = strlen(url);
	int rc;

	if (!rest)
		return cairn_err_nomem(err, "a store");
	rest->store.ops = &rest_ops;
	rest->store.connections =
		options->connections ? options->connections : REPO_HTTP_CONNECTIONS;
	rest->url = cairn_printf("%s%s", url, n > 0 && url[n - 1] == '/' ? "" : "/");
	if (!rest->url)
		rc = cairn_err_nomem(err, "a store");
	else if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
		rc = cairn_err_set(err, CAIRN_INVALID,
				   "the location of a REST server is rest:https://HOST/PATH");
	else
		rc = repo_http_new(options, &rest->http, err);
	if (rc < 0) {
		rest_close(&rest->store);
		return rc;
	}
	*ret = &rest->store;
	return 0;
}
