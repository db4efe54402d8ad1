/* SPDX-License-Identifier: Apache-2.0 */

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "net/http/http_impl.h"

/* A smaller body is sent together with its head. */
#define JOIN_MAX 16384

#define HEAD_MAX (NET_HTTP_REPLY_FIELDS_MAX + 1024)

static const char *reason_of(int status)
{
	static const struct {
		int status;
		const char *reason;
	} reasons[] = {
		{200, "OK"},
		{201, "Created"},
		{202, "Accepted"},
		{204, "No Content"},
		{304, "Not Modified"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{408, "Request Timeout"},
		{409, "Conflict"},
		{410, "Gone"},
		{412, "Precondition Failed"},
		{413, "Content Too Large"},
		{414, "URI Too Long"},
		{415, "Unsupported Media Type"},
		{416, "Range Not Satisfiable"},
		{422, "Unprocessable Content"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{499, "Client Closed Request"},
		{500, "Internal Server Error"},
		{501, "Not Implemented"},
		{503, "Service Unavailable"},
		{504, "Gateway Timeout"},
		{505, "HTTP Version Not Supported"},
	};

	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Status";
}

int net_http_status_of(int code)
{
	switch ((enum cairn_code)code) {
	case CAIRN_OK:
		return 200;
	case CAIRN_INVALID:
	case CAIRN_RANGE:
		return 400;
	case CAIRN_UNAUTHENTICATED:
		return 401;
	case CAIRN_DENIED:
		return 403;
	case CAIRN_NOT_FOUND:
		return 404;
	case CAIRN_EXISTS:
	case CAIRN_ABORTED:
		return 409;
	case CAIRN_PRECONDITION:
		return 412;
	case CAIRN_NO_SPACE:
		return 429;
	case CAIRN_CANCELLED:
		return 499;
	case CAIRN_UNIMPLEMENTED:
		return 501;
	case CAIRN_UNAVAILABLE:
		return 503;
	case CAIRN_DEADLINE:
		return 504;
	case CAIRN_UNKNOWN:
	case CAIRN_INTERNAL:
	case CAIRN_DATA_LOSS:
		break;
	}
	return 500;
}

static bool value_legal(const char *value)
{
	for (; *value; value++)
		if (((unsigned char)*value < 0x20 && *value != '\t') || *value == 0x7f)
			return false;
	return true;
}

static bool http_reply_name_legal(const char *name)
{
	if (!*name)
		return false;
	for (; *name; name++)
		if (!isalnum((unsigned char)*name) && *name != '-')
			return false;
	return true;
}

int net_http_add_field(struct net_http *http, const char *name, const char *value,
		       struct cairn_err *err)
{
	if (http->begun)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the reply has begun");
	if (!http_reply_name_legal(name) || !value_legal(value))
		return cairn_err_set(err, CAIRN_INVALID, "illegal field '%s'", name);
	cairn_buf_addf(&http->fields, "%s: %s\r\n", name, value);
	if (cairn_buf_failed(&http->fields))
		return cairn_err_set(err, CAIRN_NO_SPACE, "too many fields in a reply");
	return 0;
}

static void add_date(struct cairn_buf *out)
{
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t now = time(NULL);
	struct tm tm;

	gmtime_r(&now, &tm);
	cairn_buf_addf(out, "Date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\r\n",
		       days + (size_t)tm.tm_wday * 3, tm.tm_mday, months + (size_t)tm.tm_mon * 3,
		       tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* The head up to and with its empty line; `length` is NULL for a streamed body. */
static void add_head(struct net_http *http, struct cairn_buf *out, int status, const char *type,
		     const uint64_t *length)
{
	cairn_buf_addf(out, "HTTP/1.1 %d %s\r\n", status, reason_of(status));
	add_date(out);
	if (type)
		cairn_buf_addf(out, "Content-Type: %s\r\n", type);
	cairn_buf_add(out, http->fields.data, http->fields.len);
	if (length && status != 204 && status != 304)
		cairn_buf_addf(out, "Content-Length: %" PRIu64 "\r\n", *length);
	if (http->chunked)
		cairn_buf_adds(out, "Transfer-Encoding: chunked\r\n");
	cairn_buf_adds(out, http->close ? "Connection: close\r\n\r\n" : "\r\n");
}

/* Writes, and remembers a failure: nothing more is sent after it. */
static int http_reply_put(struct net_http *http, const void *data, size_t n, struct cairn_err *err)
{
	if (!http->broken && *http->stopping)
		http->broken = CAIRN_CANCELLED;
	if (!http->broken)
		http->broken = net_http_stream_write(http->stream, data, n, http->limits->stall_ms);
	if (!http->broken)
		return 0;
	http->close = true;
	return cairn_err_set(err, http->broken,
			     http->broken == CAIRN_DEADLINE ? "the peer takes nothing"
							    : "the peer is gone");
}

static bool http_reply_is_head(const struct net_http *http)
{
	return http->head.method && strcmp(http->head.method, "HEAD") == 0;
}

int net_http_reply(struct net_http *http, int status, const char *type, const void *body, size_t n,
		   struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(HEAD_MAX + JOIN_MAX);
	bool bare = http_reply_is_head(http) || status == 204 || status == 304;
	uint64_t length = n;
	int rc;

	if (http->begun)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the reply has begun");
	http->begun = true;
	if (http->head.method && !http->head.keep_alive)
		http->close = true;
	add_head(http, &out, status, type, &length);
	if (!bare && n <= JOIN_MAX)
		cairn_buf_add(&out, body, n);
	if (cairn_buf_failed(&out)) {
		http->close = true;
		return cairn_err_nomem(err, "reply");
	}
	rc = http_reply_put(http, out.data, out.len, err);
	if (rc == 0 && !bare && n > JOIN_MAX)
		rc = http_reply_put(http, body, n, err);
	return rc;
}

int net_http_reply_text(struct net_http *http, int status, const char *text, struct cairn_err *err)
{
	return net_http_reply(http, status, "text/plain; charset=utf-8", text, strlen(text), err);
}

void net_http_refuse(struct net_http *http, int status, const char *text)
{
	http->close = true;
	(void)net_http_reply_text(http, status, text, NULL);
}

int net_http_begin(struct net_http *http, int status, const char *type, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(HEAD_MAX);

	if (http->begun)
		return cairn_err_set(err, CAIRN_PRECONDITION, "the reply has begun");
	http->begun = true;
	http->streaming = true;
	http->chunked = http->head.minor == 1;
	if (!http->head.keep_alive || !http->chunked)
		http->close = true;
	add_head(http, &out, status, type, NULL);
	if (cairn_buf_failed(&out)) {
		http->close = true;
		return cairn_err_nomem(err, "reply");
	}
	return http_reply_put(http, out.data, out.len, err);
}

int net_http_write(struct net_http *http, const void *data, size_t n, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(JOIN_MAX + 64);
	int rc;

	if (!http->streaming)
		return cairn_err_set(err, CAIRN_PRECONDITION, "no streamed reply was begun");
	if (n == 0 || http_reply_is_head(http)) /* an empty chunk would be the end */
		return http->broken;
	if (!http->chunked)
		return http_reply_put(http, data, n, err);
	cairn_buf_addf(&out, "%zx\r\n", n);
	if (n <= JOIN_MAX) {
		cairn_buf_add(&out, data, n);
		cairn_buf_adds(&out, "\r\n");
	}
	if (cairn_buf_failed(&out)) {
		http->broken = CAIRN_NO_SPACE;
		return cairn_err_nomem(err, "reply");
	}
	rc = http_reply_put(http, out.data, out.len, err);
	if (rc == 0 && n > JOIN_MAX)
		rc = http_reply_put(http, data, n, err);
	if (rc == 0 && n > JOIN_MAX)
		rc = http_reply_put(http, "\r\n", 2, err);
	return rc;
}

int net_http_finish(struct net_http *http)
{
	if (!http->streaming || !http->chunked || http_reply_is_head(http))
		return http->broken;
	return http_reply_put(http, "0\r\n\r\n", 5, NULL);
}

int net_http_check(struct net_http *http)
{
	if (http->broken)
		return http->broken;
	return *http->stopping || net_http_stream_gone(http->stream) ? CAIRN_CANCELLED : 0;
}
