/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/s3/s3.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/s3/s3_impl.h"
#include "repo/s3/s3_objects.h"
#include "repo/s3/xml.h"

#define PAGES_MAX 1000000U /* stops at a server that pages for ever */

/* ---- keys ------------------------------------------------------------------- */

char *s3_key_of(const struct s3 *s3, enum repo_file kind, const struct repo_id *name)
{
	char hex[REPO_ID_TEXT_MAX];

	if (kind == REPO_FILE_CONFIG)
		return cairn_printf("%sconfig", s3->prefix);
	repo_id_format(name, hex);
	if (kind == REPO_FILE_PACK)
		return cairn_printf("%sdata/%.2s/%s", s3->prefix, hex, hex);
	return cairn_printf("%s%s/%s", s3->prefix, repo_file_name(kind), hex);
}

/* Fills in the key and makes the call. */
static int s3_run(struct s3_call *call, enum repo_file kind, const struct repo_id *name,
		  struct cairn_err *err)
{
	cairn_auto_free char *key = s3_key_of(call->s3, kind, name);

	if (!key)
		return cairn_err_nomem(err, "a request");
	call->key = key;
	return s3_call(call, err);
}

/* ---- operations ------------------------------------------------------------- */

/* Creates the bucket if it does not exist. */
static int s3_create(struct repo_store *store, struct cairn_err *err)
{
	struct s3 *s3 = (struct s3 *)store;
	cairn_auto_free char *body = NULL;
	struct s3_call head = {.s3 = s3, .request = {.method = "HEAD"}};
	struct s3_call put = {
		.s3 = s3, .bucket_lock = s3->lock_days > 0, .request = {.method = "PUT"}};
	struct s3_call again = head;
	struct cairn_err why = {0};
	int rc = s3_call(&head, &why);

	if (rc != CAIRN_NOT_FOUND)
		return rc < 0 ? cairn_err_set(err, rc, "bucket '%s': %s", s3->bucket, why.msg) : 0;
	if (strcmp(s3->region, "us-east-1") != 0) {
		body = cairn_printf("<CreateBucketConfiguration "
				    "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
				    "<LocationConstraint>%s</LocationConstraint>"
				    "</CreateBucketConfiguration>",
				    s3->region);
		if (!body)
			return cairn_err_nomem(err, "a request");
		put.request.body = body;
		put.request.body_n = strlen(body);
	}
	rc = s3_call(&put, &why);
	/* Another init may have created the bucket meanwhile. */
	if (rc < 0 && put.answer.status == 409 && s3_call(&again, NULL) == 0)
		return 0;
	return rc < 0 ? cairn_err_set(err, rc, "make bucket '%s': %s", s3->bucket, why.msg) : 0;
}

static int s3_get_all(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		      size_t max, uint8_t **ret_data, size_t *ret_n, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(max);
	struct s3_call call = {.s3 = (struct s3 *)store,
			       .request = {.method = "GET", .text = &text}};
	int rc = s3_run(&call, kind, name, err);

	return rc < 0 ? rc : repo_http_take(&text, ret_data, ret_n, err);
}

/* The config must not be replaced. A server without conditional writes refuses or ignores
 * the condition; the lock that the caller holds covers that case. */
static int s3_put_config(struct repo_store *store, const void *data, size_t n,
			 const struct repo_id *id_of_data, struct cairn_err *err)
{
	struct s3_call call = {.s3 = (struct s3 *)store,
			       .payload = id_of_data,
			       .if_absent = true,
			       .lock = ((struct s3 *)store)->lock_days > 0,
			       .request = {.method = "PUT", .body = data, .body_n = n}};
	struct cairn_err why = {0};
	int rc = s3_run(&call, REPO_FILE_CONFIG, NULL, &why);

	if (rc == CAIRN_UNIMPLEMENTED) {
		call.if_absent = false;
		rc = s3_run(&call, REPO_FILE_CONFIG, NULL, &why);
	}
	/* The answer to an earlier attempt may have been lost. */
	if (rc == CAIRN_EXISTS && repo_store_holds(store, REPO_FILE_CONFIG, NULL, data, n))
		return 0;
	return rc < 0 ? cairn_err_set(err, rc, "%s", why.msg) : 0;
}

static int s3_put(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		  const void *data, size_t n, const struct repo_id *id_of_data,
		  struct cairn_err *err)
{
	struct s3 *s3 = (struct s3 *)store;
	struct s3_call call = {.s3 = s3,
			       .payload = id_of_data,
			       .lock = s3->lock_days > 0 && kind != REPO_FILE_LOCK,
			       .request = {.method = "PUT", .body = data, .body_n = n}};
	cairn_auto_free char *key = NULL;

	if (kind == REPO_FILE_CONFIG)
		return s3_put_config(store, data, n, id_of_data, err);
	if (n <= s3->part_size)
		return s3_run(&call, kind, name, err);
	key = s3_key_of(s3, kind, name);
	return key ? s3_put_parts(s3, key, data, n, err) : cairn_err_nomem(err, "a request");
}

static int s3_get(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		  uint64_t offset, void *out, size_t n, struct cairn_err *err)
{
	char range[REPO_HTTP_RANGE_MAX];
	struct s3_call call = {
		.s3 = (struct s3 *)store,
		.range = range,
		.request = {.method = "GET", .out = out, .out_n = n, .offset = offset}};

	if (n == 0)
		return 0;
	repo_http_range(offset, n, range);
	return s3_run(&call, kind, name, err);
}

/* The answer to a HEAD has no body. A GET is refused for the same reason, and its answer
 * contains it. */
static int ask_why(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		   struct cairn_err *err)
{
	uint8_t byte;

	return s3_get(store, kind, name, 0, &byte, sizeof(byte), err);
}

static int s3_size(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		   uint64_t *ret_size, struct cairn_err *err)
{
	struct s3_call call = {.s3 = (struct s3 *)store, .request = {.method = "HEAD"}};
	struct cairn_err why = {0};
	int rc = s3_run(&call, kind, name, &why);

	if (rc == 0)
		return repo_http_length(&call.answer, ret_size, err);
	if (rc == CAIRN_NOT_FOUND || rc == CAIRN_UNAVAILABLE || rc == CAIRN_CANCELLED ||
	    ask_why(store, kind, name, err) != rc)
		return cairn_err_set(err, rc, "%s", why.msg);
	return rc;
}

static int s3_remove(struct repo_store *store, enum repo_file kind, const struct repo_id *name,
		     struct cairn_err *err)
{
	struct s3_call call = {.s3 = (struct s3 *)store, .request = {.method = "DELETE"}};
	struct cairn_err why = {0};
	int rc = s3_run(&call, kind, name, &why);

	return rc < 0 && rc != CAIRN_NOT_FOUND ? cairn_err_set(err, rc, "%s", why.msg) : 0;
}

/* ---- listing ---------------------------------------------------------------- */

struct listing {
	repo_store_list_fn *fn;
	void *arg;
};

static int s3_take_key(void *arg, const char *key, uint64_t size, struct cairn_err *err)
{
	struct listing *listing = arg;
	const char *slash = strrchr(key, '/');
	const char *name = slash ? slash + 1 : key;
	struct repo_id id;

	if (!repo_id_parse(name, strlen(name), &id))
		return 0;
	return listing->fn(listing->arg, &id, size, err);
}

/* Parameters in ascending order, as the signature requires. `after` may be NULL. */
static int page_query(const char *prefix, const char *after, const char *token, char **ret,
		      struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf query = CAIRN_BUF_INIT(16384);

	if (token[0]) {
		cairn_buf_adds(&query, "continuation-token=");
		s3_encode(&query, token, 0);
		cairn_buf_addc(&query, '&');
	}
	cairn_buf_adds(&query, "list-type=2&prefix=");
	s3_encode(&query, prefix, 0);
	if (after) {
		cairn_buf_adds(&query, "&start-after=");
		s3_encode(&query, after, 0);
	}
	*ret = cairn_buf_take_string(&query);
	return *ret ? 0 : cairn_err_nomem(err, "a request");
}

static int s3_list_page(struct s3 *s3, const char *prefix, const char *after, s3_key_fn *fn,
			void *arg, struct s3_page *page, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(S3_XML_MAX);
	cairn_auto_free char *query = NULL;
	struct s3_call call = {.s3 = s3, .request = {.method = "GET", .text = &text}};
	int rc = page_query(prefix, after, page->token, &query, err);

	if (rc < 0)
		return rc;
	call.query = query;
	rc = s3_call(&call, err);
	return rc < 0 ? rc
		      : s3_parse_list(text.data ? (char *)text.data : "", text.len, fn, arg, page,
				      err);
}

static int s3_list(struct repo_store *store, enum repo_file kind, repo_store_list_fn *fn, void *arg,
		   struct cairn_err *err)
{
	struct s3 *s3 = (struct s3 *)store;
	cairn_auto_free char *prefix = cairn_printf("%s%s/", s3->prefix, repo_file_name(kind));
	struct listing listing = {fn, arg};
	struct s3_page page = {.truncated = true};
	int rc = 0;

	if (!prefix)
		return cairn_err_nomem(err, "a request");
	for (unsigned i = 0; rc == 0 && page.truncated; i++) {
		if (i == PAGES_MAX)
			return cairn_err_set(err, CAIRN_INTERNAL, "the listing does not end");
		rc = s3_list_page(s3, prefix, NULL, s3_take_key, &listing, &page, err);
	}
	return rc;
}

/* Keys after those of packs, in their order: "index/…", "keys/…", "locks/…", "snapshots/…". */
#define REST_AFTER "data0" /* '0' follows '/' */
#define REST_PAST  "snapshots0"
#define REST_PAGES 4U /* a bucket may hold other files between them */

struct rest_listing {
	repo_store_list_rest_fn *fn;
	void *arg;
	const char *prefix;
	bool past;
};

static int s3_take_rest(void *arg, const char *key, uint64_t size, struct cairn_err *err)
{
	static const enum repo_file kinds[] = {REPO_FILE_INDEX, REPO_FILE_KEY, REPO_FILE_LOCK,
					       REPO_FILE_SNAPSHOT};
	struct rest_listing *listing = arg;
	size_t n = strlen(listing->prefix);

	if (strncmp(key, listing->prefix, n) != 0)
		return 0;
	key += n;
	listing->past = listing->past || strcmp(key, REST_PAST) > 0;
	n = strcspn(key, "/");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const char *directory = repo_file_name(kinds[i]);
		struct repo_id id;

		if (n == strlen(directory) && strncmp(key, directory, n) == 0 && key[n] == '/' &&
		    repo_id_parse(key + n + 1, strlen(key + n + 1), &id))
			return listing->fn(listing->arg, kinds[i], &id, size, err);
	}
	return 0;
}

static int s3_list_rest(struct repo_store *store, repo_store_list_rest_fn *fn, void *arg,
			bool *ret_at_once, struct cairn_err *err)
{
	struct s3 *s3 = (struct s3 *)store;
	cairn_auto_free char *after = cairn_printf("%s" REST_AFTER, s3->prefix);
	struct rest_listing listing = {.fn = fn, .arg = arg, .prefix = s3->prefix};
	struct s3_page page = {.truncated = true};
	unsigned pages = 0;
	int rc = 0;

	if (!after)
		return cairn_err_nomem(err, "a request");
	for (; rc == 0 && page.truncated && !listing.past; pages++) {
		if (pages == REST_PAGES)
			return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "too many other files");
		rc = s3_list_page(s3, s3->prefix, after, s3_take_rest, &listing, &page, err);
	}
	*ret_at_once = pages == 1;
	return rc;
}

/* ---- opening ---------------------------------------------------------------- */

static void s3_close(struct repo_store *store)
{
	struct s3 *s3 = (struct s3 *)store;

	repo_http_free(s3->http);
	if (s3->secret_key)
		OPENSSL_cleanse(s3->secret_key, strlen(s3->secret_key));
	free(s3->scheme);
	free(s3->host);
	free(s3->bucket);
	free(s3->bucket_path);
	free(s3->prefix);
	free(s3->access_key);
	free(s3->secret_key);
	free(s3->token);
	free(s3->region);
	free(s3);
}

static const struct repo_store_ops s3_ops = {
	.name = "S3",
	.close = s3_close,
	.create = s3_create,
	.put = s3_put,
	.get = s3_get,
	.size = s3_size,
	.remove = s3_remove,
	.list = s3_list,
	.list_rest = s3_list_rest,
	.get_all = s3_get_all,
	.protect = s3_protect,
	.protected_until = s3_protected_until,
	.objects = &s3_object_ops,
};

static bool ends_with(const char *text, size_t n, const char *end)
{
	return n >= strlen(end) && memcmp(text + n - strlen(end), end, strlen(end)) == 0;
}

/* Splits [scheme://]host/bucket[/prefix] into its parts. */
static int parse_place(struct s3 *s3, const char *place, enum repo_s3_style style,
		       struct cairn_err *err)
{
	const char *host = strstr(place, "://");
	const char *bucket, *rest;
	size_t host_n, bucket_n, rest_n;
	bool virtual;

	s3->scheme =
		host ? cairn_strndup(place, (size_t)(host - place) + 3) : cairn_strdup("https://");
	host = host ? host + 3 : place + strspn(place, "/");
	host_n = strcspn(host, "/");
	bucket = host + host_n + strspn(host + host_n, "/");
	bucket_n = strcspn(bucket, "/");
	rest = bucket + bucket_n + strspn(bucket + bucket_n, "/");
	rest_n = strlen(rest);
	while (rest_n > 0 && rest[rest_n - 1] == '/')
		rest_n--;
	if (!s3->scheme)
		return cairn_err_nomem(err, "a store");
	if (host_n == 0 || bucket_n == 0 || memchr(host, '@', host_n) ||
	    (strcmp(s3->scheme, "https://") != 0 && strcmp(s3->scheme, "http://") != 0))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the location of an S3 repository is "
				     "s3:https://HOST/BUCKET/PATH");
	/* Clients leave the default port out of the Host header, so it must not be signed
	 * either. */
	if (ends_with(host, host_n, s3->scheme[4] == 's' ? ":443" : ":80"))
		host_n -= s3->scheme[4] == 's' ? 4 : 3;
	virtual = style == REPO_S3_VIRTUAL ||
		  (style == REPO_S3_AUTO && ends_with(host, host_n, "amazonaws.com"));
	s3->bucket = cairn_strndup(bucket, bucket_n);
	s3->host = virtual ? cairn_printf("%.*s.%.*s", (int)bucket_n, bucket, (int)host_n, host)
			   : cairn_strndup(host, host_n);
	s3->bucket_path = virtual ? cairn_strdup("") : cairn_printf("/%.*s", (int)bucket_n, bucket);
	s3->prefix = rest_n > 0 ? cairn_printf("%.*s/", (int)rest_n, rest) : cairn_strdup("");
	if (!s3->bucket || !s3->host || !s3->bucket_path || !s3->prefix)
		return cairn_err_nomem(err, "a store");
	return 0;
}

static int take_options(struct s3 *s3, const struct repo_store_options *options,
			struct cairn_err *err)
{
	struct repo_store_options http = *options;
	uint64_t part = options->part_size ? options->part_size : S3_PART_SIZE;

	if (!options->access_key || !options->secret_key)
		return cairn_err_set(err, CAIRN_INVALID,
				     "no keys for S3: AWS_ACCESS_KEY_ID and "
				     "AWS_SECRET_ACCESS_KEY are not set");
	s3->lock_days = options->lock_days;
	s3->part_size = part < S3_PART_MIN ? S3_PART_MIN : part;
	s3->access_key = cairn_strdup(options->access_key);
	s3->secret_key = cairn_strdup(options->secret_key);
	s3->region = cairn_strdup(options->region ? options->region : "us-east-1");
	s3->token = options->session_token ? cairn_strdup(options->session_token) : NULL;
	if (!s3->access_key || !s3->secret_key || !s3->region ||
	    (options->session_token && !s3->token))
		return cairn_err_nomem(err, "a store");
	http.user = http.password = NULL;
	return repo_http_new(&http, &s3->http, err);
}

int repo_s3_open(const struct repo_store_options *options, const char *place,
		 struct repo_store **ret, struct cairn_err *err)
{
	struct s3 *s3 = cairn_calloc(1, sizeof(*s3));
	int rc;

	if (!s3)
		return cairn_err_nomem(err, "a store");
	s3->store.ops = &s3_ops;
	s3->store.connections = options->connections ? options->connections : REPO_HTTP_CONNECTIONS;
	rc = parse_place(s3, place, options->s3_style, err);
	if (rc == 0)
		rc = take_options(s3, options, err);
	if (rc < 0) {
		s3_close(&s3->store);
		return rc;
	}
	*ret = &s3->store;
	return 0;
}
