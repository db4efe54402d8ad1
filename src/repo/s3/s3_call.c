/* SPDX-License-Identifier: Apache-2.0 */

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/instant.h"
#include "repo/s3/s3_impl.h"
#include "repo/s3/xml.h"

#define HEADERS_MAX     10
#define CLOCK_TOLERANCE 120 /* seconds of validity; S3 itself allows 900 */

/* The headers of one attempt. The struct owns the lines. */
struct headers {
	char *lines[HEADERS_MAX + 1];
	size_t n;
};

static void headers_done(struct headers *headers)
{
	for (size_t i = 0; i < headers->n; i++)
		free(headers->lines[i]);
}

static bool s3_call_add(struct headers *headers, char *line)
{
	if (!line || headers->n == HEADERS_MAX) {
		free(line);
		return false;
	}
	headers->lines[headers->n++] = line;
	return true;
}

static bool s3_call_add_value(struct headers *headers, const char *name, const char *value)
{
	return !value || s3_call_add(headers, cairn_printf("%s: %s", name, value));
}

/* S3 requires Content-MD5 for requests that concern Object Lock. */
static bool sends_md5(const struct s3_call *call)
{
	return call->request.body && (call->s3->wants_md5 || call->lock || call->md5);
}

static bool make_path(const struct s3_call *call, struct cairn_buf *out)
{
	cairn_buf_adds(out, call->s3->bucket_path);
	if (call->key || !call->s3->bucket_path[0])
		cairn_buf_addc(out, '/');
	if (call->key)
		s3_encode(out, call->key, 1);
	cairn_buf_addc(out, 0);
	return !cairn_buf_failed(out);
}

/* "Content-MD5: …" of the body; NULL on failure. */
static char *md5_header(const struct repo_request *request)
{
	cairn_auto_buf struct cairn_buf line = CAIRN_BUF_INIT(128);
	uint8_t md5[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (!EVP_Digest(request->body, request->body_n, md5, &n, EVP_md5(), NULL))
		return NULL;
	cairn_buf_adds(&line, "Content-MD5: ");
	cairn_base64_add(&line, md5, n);
	return cairn_buf_take_string(&line);
}

static bool s3_call_sign(const struct s3_call *call, const char *path, const char *payload,
			 struct headers *headers)
{
	const struct s3 *s3 = call->s3;
	const struct s3_credentials credentials = {s3->access_key, s3->secret_key, s3->token,
						   s3->region};
	cairn_auto_buf struct cairn_buf authorization = CAIRN_BUF_INIT(4096);
	int64_t now = (int64_t)(cairn_now_ns() / CAIRN_NS_PER_SEC) + s3->clock_offset;
	char date[S3_DATE_MAX], until[REPO_INSTANT_TEXT_MAX];
	struct s3_signed what = {.method = call->request.method,
				 .host = s3->host,
				 .path = path,
				 .query = call->query ? call->query : "",
				 .payload = payload,
				 .date = s3_date(now, date),
				 .bucket_lock = call->bucket_lock ? "true" : NULL};

	if (call->lock) {
		what.lock_mode = S3_LOCK_MODE;
		what.lock_until = s3_until(now + (int64_t)s3->lock_days * 86400, until);
	}
	s3_sign(&credentials, &what, &authorization);
	cairn_buf_addc(&authorization, 0);
	if (cairn_buf_failed(&authorization))
		return false;
	return s3_call_add(headers,
			   cairn_printf("Authorization: %s", (char *)authorization.data)) &&
	       s3_call_add(headers, cairn_printf("x-amz-date: %s", date)) &&
	       s3_call_add(headers, cairn_printf("x-amz-content-sha256: %s", payload)) &&
	       (!s3->token ||
		s3_call_add(headers, cairn_printf("x-amz-security-token: %s", s3->token))) &&
	       (!call->range || s3_call_add(headers, cairn_strdup(call->range))) &&
	       (!sends_md5(call) || s3_call_add(headers, md5_header(&call->request))) &&
	       s3_call_add_value(headers, "x-amz-bucket-object-lock-enabled", what.bucket_lock) &&
	       s3_call_add_value(headers, "x-amz-object-lock-mode", what.lock_mode) &&
	       s3_call_add_value(headers, "x-amz-object-lock-retain-until-date", what.lock_until) &&
	       (!call->if_absent || s3_call_add(headers, cairn_strdup("If-None-Match: *")));
}

/* Handles the status of a conditional write. A conflict means that another request for the
 * same object is in progress. */
static int condition_status(const struct s3_call *call, struct cairn_err *err)
{
	if (call->if_absent && call->answer.status == 412)
		return cairn_err_set(err, CAIRN_EXISTS, "there is one already");
	if (call->if_absent && call->answer.status == 501)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "the server has no conditional writes");
	if (call->if_absent && call->answer.status == 409)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "another request writes it");
	return repo_http_status(&call->answer, err);
}

/* Our clock may be wrong: take the time from the server's answer and sign the request
 * again. (The answer to a HEAD does not say why it was refused.) */
static int follow_clock(struct s3_call *call, struct cairn_err *err)
{
	int64_t now = (int64_t)(cairn_now_ns() / CAIRN_NS_PER_SEC);
	int64_t ahead = call->answer.date - now - call->s3->clock_offset;

	if (call->answer.status != 403 || call->clock_set || !call->answer.date ||
	    (ahead < CLOCK_TOLERANCE && ahead > -CLOCK_TOLERANCE))
		return condition_status(call, err);
	call->clock_set = true;
	call->s3->clock_offset = call->answer.date - now;
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "the clocks differ");
}

/* A bucket with Object Lock requires an MD5 of each body. Other buckets do not, and
 * computing it takes time, so it is sent only once the server has asked for it. */
static int follow_md5(struct s3_call *call, struct cairn_err *err)
{
	if (call->answer.status != 400 || !call->request.body || call->sent_md5 ||
	    !strstr(call->answer.why, "Content-MD5"))
		return follow_clock(call, err);
	call->s3->wants_md5 = true;
	return cairn_err_set(err, CAIRN_UNAVAILABLE, "the server wants an MD5");
}

static int s3_call_try_call(void *arg, struct cairn_err *err)
{
	struct s3_call *call = arg;
	cairn_cleanup(headers_done) struct headers headers = {0};
	cairn_auto_buf struct cairn_buf path = CAIRN_BUF_INIT(8192);
	cairn_auto_free char *url = NULL;
	char payload[REPO_ID_TEXT_MAX];
	struct repo_id hash;
	int rc;

	if (call->payload)
		hash = *call->payload;
	else if (!repo_id_of(call->request.body ? call->request.body : "", call->request.body_n,
			     &hash))
		return cairn_err_nomem(err, "a hash");
	call->sent_md5 = call->s3->wants_md5;
	if (!make_path(call, &path) ||
	    !s3_call_sign(call, (char *)path.data, repo_id_format(&hash, payload), &headers))
		return cairn_err_nomem(err, "a request");
	url = cairn_printf("%s%s%s%s%s", call->s3->scheme, call->s3->host, (char *)path.data,
			   call->query && call->query[0] ? "?" : "",
			   call->query ? call->query : "");
	if (!url)
		return cairn_err_nomem(err, "a request");
	call->request.url = url;
	call->request.headers = (const char *const *)headers.lines;
	if (call->request.text)
		cairn_buf_reset(call->request.text);
	rc = repo_http_do(call->s3->http, &call->request, &call->answer, err);
	return rc < 0 ? rc : follow_md5(call, err);
}

int s3_call(struct s3_call *call, struct cairn_err *err)
{
	return repo_http_retry(call->s3->http, s3_call_try_call, call, err);
}
