/* SPDX-License-Identifier: Apache-2.0 */

/* Objects under arbitrary keys of a bucket. They are not protected by object lock, which is
 * for a repository's files. */

#include "repo/s3/s3_objects.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/s3/s3_impl.h"
#include "repo/s3/xml.h"

#define OBJECT_PAGES_MAX 1000000U /* stops at a server that pages for ever */

/* Makes a call with the key below the store's prefix. */
static int object_run(struct s3_call *call, const char *key, struct cairn_err *err)
{
	cairn_auto_free char *full = cairn_printf("%s%s", call->s3->prefix, key);

	if (!full)
		return cairn_err_nomem(err, "a request");
	call->key = full;
	return s3_call(call, err);
}

static int s3_object_get(struct repo_store *store, const char *key, size_t max, uint8_t **ret_data,
			 size_t *ret_n, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(max);
	struct s3_call call = {.s3 = (struct s3 *)store,
			       .request = {.method = "GET", .text = &text}};
	int rc = object_run(&call, key, err);

	return rc < 0 ? rc : repo_http_take(&text, ret_data, ret_n, err);
}

static int s3_object_put(struct repo_store *store, const char *key, const void *data, size_t n,
			 struct cairn_err *err)
{
	struct s3 *s3 = (struct s3 *)store;
	struct s3_call call = {.s3 = s3, .request = {.method = "PUT", .body = data, .body_n = n}};
	cairn_auto_free char *full = NULL;

	if (n <= s3->part_size)
		return object_run(&call, key, err);
	full = cairn_printf("%s%s", s3->prefix, key);
	return full ? s3_put_parts(s3, full, data, n, err) : cairn_err_nomem(err, "a request");
}

static int s3_object_remove(struct repo_store *store, const char *key, struct cairn_err *err)
{
	struct s3_call call = {.s3 = (struct s3 *)store, .request = {.method = "DELETE"}};
	struct cairn_err why = {0};
	int rc = object_run(&call, key, &why);

	return rc < 0 && rc != CAIRN_NOT_FOUND ? cairn_err_set(err, rc, "%s", why.msg) : 0;
}

/* Parameters in ascending order, as the signature requires. */
static char *object_page_query(const struct s3 *s3, const char *prefix, const char *token)
{
	cairn_auto_buf struct cairn_buf query = CAIRN_BUF_INIT(16384);
	cairn_auto_free char *full = cairn_printf("%s%s", s3->prefix, prefix);

	if (!full)
		return NULL;
	if (token[0]) {
		cairn_buf_adds(&query, "continuation-token=");
		s3_encode(&query, token, 0);
		cairn_buf_addc(&query, '&');
	}
	cairn_buf_adds(&query, "list-type=2&prefix=");
	s3_encode(&query, full, 0);
	return cairn_buf_take_string(&query);
}

struct object_listing {
	size_t prefix_n; /* of the store */
	repo_object_fn *fn;
	void *arg;
};

/* A key that ends with '/' is a directory of servers that keep files. */
static int s3_object_take(void *arg, const char *key, uint64_t size, struct cairn_err *err)
{
	const struct object_listing *listing = arg;
	size_t n = strlen(key);

	if (n <= listing->prefix_n || key[n - 1] == '/')
		return 0;
	return listing->fn(listing->arg, key + listing->prefix_n, size, err);
}

static int s3_object_list(struct repo_store *store, const char *prefix, repo_object_fn *fn,
			  void *arg, struct cairn_err *err)
{
	struct s3 *s3 = (struct s3 *)store;
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(S3_XML_MAX);
	struct object_listing listing = {strlen(s3->prefix), fn, arg};
	struct s3_page page = {.truncated = true};
	int rc = 0;

	for (unsigned i = 0; rc == 0 && page.truncated; i++) {
		cairn_auto_free char *query = object_page_query(s3, prefix, page.token);
		struct s3_call call = {
			.s3 = s3, .query = query, .request = {.method = "GET", .text = &text}};

		if (i == OBJECT_PAGES_MAX)
			return cairn_err_set(err, CAIRN_INTERNAL, "the listing does not end");
		if (!query)
			return cairn_err_nomem(err, "a request");
		store->requests++;
		rc = s3_call(&call, err);
		if (rc == 0)
			rc = s3_parse_list(text.data ? (char *)text.data : "", text.len,
					   s3_object_take, &listing, &page, err);
	}
	return rc;
}

const struct repo_object_ops s3_object_ops = {
	.get = s3_object_get,
	.put = s3_object_put,
	.remove = s3_object_remove,
	.list = s3_object_list,
};
