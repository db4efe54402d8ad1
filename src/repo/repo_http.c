/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/backoff.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "http_client/http_client.h"
#include "http_client/idle_handles.h"
#include "repo/repo_limiter.h"
#include "repo/repo_store.h"

#define PAUSE_FIRST_MS 200U
#define PAUSE_MAX_MS   20000U
#define PAUSE_SLICE_MS 50U /* how soon a cancellation is noticed */

#define KEEPALIVE_S 60

#define RECEIVE_BUFFER   131072L
#define RECEIVE_ROOM_MIN 16384
#define RECEIVE_ROOM_MAX (4 << 20)

struct repo_http {
	char *ca_file, *ca_pem, *user, *password;
	uint64_t retry_ms, stall_ms;
	bool (*cancelled)(void);    /* or NULL */
	struct repo_limits *limits; /* or NULL */
	unsigned connections;       /* number of connections that share the limits */
	struct http_client_idle idle;
	struct http_client_settings settings;
};

static int repo_http_copy_text(char **to, const char *from, struct cairn_err *err)
{
	*to = from ? cairn_strdup(from) : NULL;
	return from && !*to ? cairn_err_nomem(err, "a store") : 0;
}

int repo_http_new(const struct repo_store_options *options, struct repo_http **ret,
		  struct cairn_err *err)
{
	cairn_cleanup(repo_http_freep) struct repo_http *http = cairn_calloc(1, sizeof(*http));
	int rc;

	if (!http)
		return cairn_err_nomem(err, "a store");
	http_client_idle_init(&http->idle, HTTP_CLIENT_IDLE_MAX);
	http->retry_ms = options->retry_ms ? options->retry_ms : REPO_HTTP_RETRY_MS;
	http->stall_ms = options->stall_ms ? options->stall_ms : REPO_HTTP_STALL_MS;
	http->cancelled = options->cancelled;
	http->limits = options->limits;
	http->connections = options->connections ? options->connections : REPO_HTTP_CONNECTIONS;
	http->settings = (struct http_client_settings){.plain = true,
						       .http1 = true,
						       .connect_ms = REPO_HTTP_CONNECT_MS,
						       .keepalive_s = KEEPALIVE_S,
						       .probe_s = KEEPALIVE_S};
	rc = repo_http_copy_text(&http->ca_file, options->ca_file, err);
	if (rc == 0)
		rc = repo_http_copy_text(&http->ca_pem, options->ca_pem, err);
	if (rc == 0)
		rc = repo_http_copy_text(&http->user, options->user, err);
	if (rc == 0)
		rc = repo_http_copy_text(&http->password, options->password, err);
	http->settings.ca_pem = http->ca_pem;
	http->settings.ca_file = http->ca_pem ? NULL : http->ca_file;
	if (rc == 0)
		*ret = cairn_take(http);
	return rc;
}

void repo_http_free(struct repo_http *http)
{
	if (!http)
		return;
	http_client_idle_done(&http->idle);
	free(http->ca_file);
	free(http->ca_pem);
	free(http->user);
	free(http->password);
	free(http);
}

/* ---- one request ------------------------------------------------------------ */

struct exchange {
	CURL *curl;
	struct repo_http *http;
	size_t sent; /* bytes of request->body that were sent */
	const struct repo_request *request;
	struct repo_answer *answer;
	uint64_t seen; /* bytes of the body that were received */
	size_t got;    /* bytes of it that are in request->out */
	struct cairn_buf error;
	bool too_large;
};

static bool repo_http_good(long status)
{
	return status >= 200 && status < 300;
}

/* Copies the requested range. A server without ranges sends the whole file; the bytes
 * before the range are then skipped. */
static void take_range(struct exchange *exchange, const char *data, size_t n, long status)
{
	const struct repo_request *request = exchange->request;
	uint64_t skip = status == 206 ? 0 : request->offset;
	size_t from = exchange->seen < skip ? (size_t)(skip - exchange->seen) : 0;
	size_t room = request->out_n - exchange->got;

	if (from >= n)
		return;
	n = n - from < room ? n - from : room;
	memcpy(request->out + exchange->got, data + from, n);
	exchange->got += n;
}

/* Waits until the limit allows `n` more bytes. Meanwhile the socket's buffer fills up and
 * TCP stops the peer. */
static bool wait_to_receive(const struct repo_http *http, size_t n)
{
	struct repo_limiter *limiter = http->limits ? &http->limits->download : NULL;

	for (size_t part; n > 0; n -= part) {
		part = repo_limiter_slice(limiter, n);
		if (!repo_limiter_wait(limiter, part, http->cancelled))
			return false;
	}
	return true;
}

/* Gives curl the next bytes of the request's body. */
static size_t give_body(char *out, size_t size, size_t n, void *arg)
{
	struct exchange *exchange = arg;
	const struct repo_request *request = exchange->request;
	struct repo_http *http = exchange->http;
	struct repo_limiter *limiter = http->limits ? &http->limits->upload : NULL;
	size_t left = request->body_n - exchange->sent;

	n *= size;
	n = repo_limiter_slice(limiter, n < left ? n : left);
	if (n > 0 && !repo_limiter_wait(limiter, n, http->cancelled))
		return CURL_READFUNC_ABORT;
	if (n > 0)
		memcpy(out, (const uint8_t *)request->body + exchange->sent, n);
	exchange->sent += n;
	return n;
}

/* curl rewinds the body if it finds that an idle connection was closed by the server. */
static int seek_body(void *arg, curl_off_t offset, int origin)
{
	struct exchange *exchange = arg;

	if (origin != SEEK_SET || offset < 0 || (size_t)offset > exchange->request->body_n)
		return CURL_SEEKFUNC_FAIL;
	exchange->sent = (size_t)offset;
	return CURL_SEEKFUNC_OK;
}

static size_t take_body(char *data, size_t size, size_t n, void *arg)
{
	struct exchange *exchange = arg;
	long status = 0;

	n *= size;
	if (!wait_to_receive(exchange->http, n))
		return 0;
	curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &status);
	if (!repo_http_good(status)) {
		size_t room = REPO_HTTP_ERROR_MAX - exchange->error.len;

		cairn_buf_add(&exchange->error, data, n < room ? n : room);
	} else if (exchange->request->out) {
		take_range(exchange, data, n, status);
	} else if (exchange->request->text) {
		cairn_buf_add(exchange->request->text, data, n);
		exchange->too_large = cairn_buf_failed(exchange->request->text);
	}
	exchange->seen += n;
	return exchange->too_large ? 0 : n;
}

static bool is_header(const char *line, size_t n, const char *name)
{
	size_t len = strlen(name);

	return n > len && strncasecmp(line, name, len) == 0 && line[len] == ':';
}

static void header_value(const char *line, size_t n, char *out, size_t max)
{
	const char *colon = memchr(line, ':', n);
	const char *start = colon ? colon + 1 : line, *end = line + n;

	while (start < end && (*start == ' ' || *start == '\t'))
		start++;
	while (end > start && (unsigned char)end[-1] <= ' ')
		end--;
	snprintf(out, max, "%.*s", (int)(end - start), start);
}

static size_t take_header(char *data, size_t size, size_t n, void *arg)
{
	struct exchange *exchange = arg;
	char date[64];
	char server[64];

	n *= size;
	if (is_header(data, n, "etag")) {
		header_value(data, n, exchange->answer->etag, sizeof(exchange->answer->etag));
	} else if (is_header(data, n, "server")) {
		header_value(data, n, server, sizeof(server));
		exchange->answer->rclone = strncmp(server, "rclone/", strlen("rclone/")) == 0;
	} else if (is_header(data, n, "date")) {
		time_t when;

		header_value(data, n, date, sizeof(date));
		when = curl_getdate(date, NULL);
		exchange->answer->date = when > 0 ? (int64_t)when : 0;
	}
	return n;
}

static bool repo_http_add_headers(const char *const *headers, struct curl_slist **list)
{
	/* Keep curl from waiting for "100 Continue" and from guessing a content type. */
	bool ok = http_client_add_field(list, "Expect:") &&
		  http_client_add_field(list, "Content-Type: application/octet-stream");

	for (const char *const *h = headers; ok && h && *h; h++)
		ok = http_client_add_field(list, *h);
	return ok;
}

/* If receiving is limited, keep the kernel from buffering megabytes ahead of us. A buffer
 * for a quarter of a second sustains the rate on lines with up to that round-trip time. */
static int limit_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	const struct repo_http *http = arg;
	uint64_t bytes = http->limits->download.rate / 4 / http->connections;
	int room = (int)(bytes < RECEIVE_ROOM_MIN   ? RECEIVE_ROOM_MIN
			 : bytes > RECEIVE_ROOM_MAX ? RECEIVE_ROOM_MAX
						    : bytes);

	(void)purpose;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	return CURL_SOCKOPT_OK;
}

static void set_limits(struct repo_http *http, CURL *curl)
{
	if (!http->limits || http->limits->download.rate == 0)
		return;
	curl_easy_setopt(curl, CURLOPT_SOCKOPTFUNCTION, limit_socket);
	curl_easy_setopt(curl, CURLOPT_SOCKOPTDATA, http);
	curl_easy_setopt(curl, CURLOPT_BUFFERSIZE,
			 (long)repo_limiter_slice(&http->limits->download, RECEIVE_BUFFER));
}

static bool repo_http_set_connection(struct repo_http *http, CURL *curl)
{
	long stall = (long)(http->stall_ms / 1000);

	if (!http_client_apply(curl, &http->settings))
		return false;
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, stall > 0 ? stall : 1L);
	curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER);
	curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
	set_limits(http, curl);
	if (http->user)
		curl_easy_setopt(curl, CURLOPT_USERNAME, http->user);
	if (http->user && http->password)
		curl_easy_setopt(curl, CURLOPT_PASSWORD, http->password);
	return true;
}

static void repo_http_set_request(CURL *curl, struct exchange *exchange, struct curl_slist *headers)
{
	const struct repo_request *request = exchange->request;

	curl_easy_setopt(curl, CURLOPT_URL, request->url);
	curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
	if (strcmp(request->method, "HEAD") == 0) {
		curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
		return;
	}
	if (strcmp(request->method, "PUT") == 0 || strcmp(request->method, "POST") == 0) {
		curl_easy_setopt(curl, CURLOPT_POST, 1L);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_n);
		curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_body);
		curl_easy_setopt(curl, CURLOPT_READDATA, exchange);
		curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, seek_body);
		curl_easy_setopt(curl, CURLOPT_SEEKDATA, exchange);
	}
	curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
}

static int repo_http_judge(struct exchange *exchange, CURLcode code, struct cairn_err *err)
{
	const struct repo_request *request = exchange->request;
	struct repo_answer *answer = exchange->answer;
	curl_off_t length = -1;

	if (exchange->too_large)
		return cairn_err_set(err, CAIRN_RANGE, "the answer is larger than %zu bytes",
				     request->text->max);
	if (code == CURLE_OUT_OF_MEMORY)
		return cairn_err_nomem(err, "a request");
	/* A wrong certificate or an unusable address is permanent: do not retry. */
	if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "%s", curl_easy_strerror(code));
	if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
		return cairn_err_set(err, CAIRN_INVALID, "%s", curl_easy_strerror(code));
	if (code != CURLE_OK)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "%s", curl_easy_strerror(code));
	curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &answer->status);
	curl_easy_getinfo(exchange->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	answer->length = (int64_t)length;
	repo_http_keep_why(&exchange->error, answer);
	if (request->out && repo_http_good(answer->status) && exchange->got < request->out_n)
		return length >= 0
			       ? cairn_err_set(err, CAIRN_RANGE, "the file is shorter")
			       : cairn_err_set(err, CAIRN_UNAVAILABLE, "the answer ended early");
	return 0;
}

int repo_http_do(struct repo_http *http, const struct repo_request *request,
		 struct repo_answer *ret, struct cairn_err *err)
{
	struct exchange exchange = {.http = http,
				    .request = request,
				    .answer = ret,
				    .error = CAIRN_BUF_INIT(REPO_HTTP_ERROR_MAX)};
	CURL *curl = http_client_idle_take(&http->idle);
	struct curl_slist *headers = NULL;
	int rc;

	*ret = (struct repo_answer){.length = -1};
	if (!curl)
		return cairn_err_nomem(err, "a request");
	exchange.curl = curl;
	if (repo_http_add_headers(request->headers, &headers) &&
	    repo_http_set_connection(http, curl)) {
		repo_http_set_request(curl, &exchange, headers);
		rc = repo_http_judge(&exchange, curl_easy_perform(curl), err);
	} else {
		rc = cairn_err_nomem(err, "a request");
	}
	http_client_fields_free(headers);
	cairn_buf_done(&exchange.error);
	http_client_idle_give(&http->idle, curl);
	return rc;
}

/* ---- tries ------------------------------------------------------- */

/* False when the caller has cancelled. */
static bool wait_ms(const struct repo_http *http, uint64_t ms)
{
	while (ms > 0 && !(http->cancelled && http->cancelled())) {
		uint64_t slice = ms < PAUSE_SLICE_MS ? ms : PAUSE_SLICE_MS;

		cairn_sleep_ms(slice);
		ms -= slice;
	}
	return !(http->cancelled && http->cancelled());
}

int repo_http_retry(struct repo_http *http, int (*try)(void *arg, struct cairn_err *err), void *arg,
		    struct cairn_err *err)
{
	uint64_t start = cairn_monotonic_ns(), pause = PAUSE_FIRST_MS;
	struct cairn_err why = {0};
	unsigned tries = 0;
	int rc;

	while (true) {
		uint64_t spent;

		rc = try(arg, &why);
		tries++;
		if (rc != CAIRN_UNAVAILABLE)
			break;
		spent = (cairn_monotonic_ns() - start) / CAIRN_NS_PER_MS;
		if (spent + pause > http->retry_ms)
			break;
		if (!wait_ms(http, cairn_jitter_ms(pause)))
			return cairn_err_set(err, CAIRN_CANCELLED, "interrupted: %s", why.msg);
		pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS;
	}
	if (rc < 0 && tries > 1)
		return cairn_err_set(err, rc, "%s (after %u tries)", why.msg, tries);
	return rc < 0 ? cairn_err_set(err, rc, "%s", why.msg) : rc;
}
