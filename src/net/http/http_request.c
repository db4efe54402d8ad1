/* SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/http/http_chunk.h"
#include "net/http/http_impl.h"
#include "net/limit_events.h"
#include "net/peer.h"
#include "net/tls/tls_settings.h"

#define READ_PIECE 8192

/* The memory of a body beyond its first bytes is charged to the peer's address, in steps. */
#define BODY_FREE_BYTES (16U << 10)
#define BODY_STEP_BYTES (64U << 10)

const char *net_http_method(const struct net_http *http)
{
	return http->head.method;
}

const char *net_http_path(const struct net_http *http)
{
	return http->head.path;
}

const char *net_http_query(const struct net_http *http)
{
	return http->head.query;
}

const char *net_http_field(const struct net_http *http, const char *name)
{
	return net_http_head_field(&http->head, name);
}

bool net_http_field_at(const struct net_http *http, size_t i, const char **ret_name,
		       const char **ret_value)
{
	if (i >= http->head.n_fields)
		return false;
	*ret_name = http->head.fields[i].name;
	*ret_value = http->head.fields[i].value;
	return true;
}

const void *net_http_body(const struct net_http *http, size_t *ret_len)
{
	*ret_len = http->body.len;
	return http->body.data;
}

const char *net_http_peer(struct net_http *http)
{
	struct net_shared_peer *shared = http->peer[0] ? NULL : net_peer_of(http->stream->fd);

	if (shared)
		snprintf(http->peer, sizeof(http->peer), "%s", shared->peer.address);
	net_peer_unref(shared);
	return http->peer;
}

const char *net_http_tls_name(const struct net_http *http)
{
	return *http->name ? http->name : NULL;
}

void net_http_trust(struct net_http *http, enum net_slot_trust trust)
{
	net_slot_trust(http->shares, http->slot, trust);
	if (trust >= NET_SLOT_KNOWN)
		net_http_stream_limit_unsent(http->stream, false);
}

bool net_http_tls_verify(const struct net_http *http, const char *ca_pem)
{
	return http->stream->ssl && net_tls_peer_verify(http->stream->ssl, ca_pem);
}

static uint64_t http_request_after(uint64_t ms)
{
	return cairn_monotonic_ns() + ms * CAIRN_NS_PER_MS;
}

/* Reads once into `in`: how many bytes, 0 at the end, or a code. CAIRN_NO_SPACE
 * when `max` bytes are there already. */
static long read_more(struct net_http *http, size_t max, uint64_t until)
{
	struct cairn_buf *in = http->in;
	size_t want = in->len < max ? max - in->len : 0;
	void *at;
	long n;

	if (want == 0)
		return CAIRN_NO_SPACE;
	if (want > READ_PIECE)
		want = READ_PIECE;
	at = cairn_buf_reserve(in, want);
	if (!at)
		return CAIRN_NO_SPACE;
	n = net_http_stream_read(http->stream, at, want, until);
	if (n > 0)
		in->len += (size_t)n;
	return n;
}

/* Receives a complete head. Returns its length, or 0 when the connection must
 * be closed; an error response was sent if there was a reason to report. */
static size_t read_head(struct net_http *http)
{
	uint64_t until = http_request_after(http->limits->idle_ms);
	size_t seen = 0;
	bool begun = false;

	for (;;) {
		size_t end = net_http_head_end((const char *)http->in->data, http->in->len, seen);
		long n;

		if (end > 0)
			return end;
		if (http->in->len > 0 && !begun) {
			begun = true;
			until = http_request_after(http->limits->header_ms);
		}
		seen = http->in->len;
		n = read_more(http, http->limits->header_bytes, until);
		if (n == CAIRN_NO_SPACE) {
			net_limit_count(NET_LIMIT_HEADER_BYTES);
			net_http_refuse(http, 431, "request head is too large\n");
		} else if (n == CAIRN_DEADLINE && begun) {
			net_limit_count(NET_LIMIT_HEADER_TIME);
			net_http_refuse(http, 408, "request head took too long\n");
		}
		if (n <= 0)
			return 0;
	}
}

static bool path_fits(const struct net_http_route *route, const char *path)
{
	size_t n = strlen(route->path);

	if (n > 0 && route->path[n - 1] == '/')
		return strncmp(path, route->path, n) == 0;
	return strcmp(path, route->path) == 0;
}

static bool method_fits(const struct net_http_route *route, const char *method)
{
	return !route->method || strcmp(route->method, method) == 0 ||
	       (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

/* The route with the longest path that takes the method; NULL when there is
 * none, and *ret_known says whether the path has others. */
static const struct net_http_route *find_route(const struct net_http_route *routes, size_t n,
					       const struct net_http_head *head, bool *ret_known)
{
	const struct net_http_route *best = NULL;

	*ret_known = false;
	for (size_t i = 0; i < n; i++) {
		if (!path_fits(&routes[i], head->path))
			continue;
		*ret_known = true;
		if (method_fits(&routes[i], head->method) &&
		    (!best || strlen(routes[i].path) > strlen(best->path)))
			best = &routes[i];
	}
	return best;
}

/* False if the body exceeds a share; `body_bytes` limits only one of them. */
static bool charge_body(struct net_http *http)
{
	size_t n = BODY_STEP_BYTES;

	if (http->body.len <= http->charged + BODY_FREE_BYTES)
		return true;
	if (!http->share)
		http->share = net_slot_share(http->shares, http->slot);
	if (!net_share_charge(http->shares, http->share, n, net_slot_is_known(http->slot)))
		return false;
	http->charged += n;
	return true;
}

void net_http_uncharge(struct net_http *http)
{
	if (http->charged > 0)
		net_share_uncharge(http->shares, http->share, http->charged);
	net_share_unref(http->shares, http->share);
	http->charged = 0;
	http->share = NULL;
}

static int read_body_plain(struct net_http *http, size_t max, uint64_t until)
{
	uint64_t left = http->head.length;

	if (left > max)
		return 413;
	while (left > 0) {
		size_t take = http->in->len < left ? http->in->len : (size_t)left;

		cairn_buf_add(&http->body, http->in->data, take);
		cairn_buf_consume(http->in, take);
		left -= take;
		if (cairn_buf_failed(&http->body))
			return 413;
		if (!charge_body(http))
			return 503;
		if (left > 0) {
			long n = read_more(http, READ_PIECE, until);

			if (n <= 0)
				return n == CAIRN_DEADLINE ? 408 : -1;
		}
	}
	return 0;
}

static int read_body_chunked(struct net_http *http, uint64_t until)
{
	struct net_http_chunks chunks = {0};

	for (;;) {
		size_t used;
		int status = net_http_chunks_feed(&chunks, (const char *)http->in->data,
						  http->in->len, &http->body, &used);
		long n;

		cairn_buf_consume(http->in, used);
		if (status)
			return status == 1 ? 0 : status;
		if (!charge_body(http))
			return 503;
		n = read_more(http, READ_PIECE, until);
		if (n <= 0)
			return n == CAIRN_DEADLINE ? 408 : -1;
	}
}

/* Returns 0, an HTTP status, or -1 if the peer has disconnected. */
static int http_request_read_body(struct net_http *http, size_t max)
{
	static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
	uint64_t until = http_request_after(http->limits->body_ms);
	bool body = http->head.chunked || http->head.length > 0;

	if (http->head.length > max)
		return 413;
	if (body && http->head.expect_continue && http->in->len == 0 &&
	    net_http_stream_write(http->stream, go_on, sizeof(go_on) - 1, http->limits->stall_ms) <
		    0)
		return -1;
	return http->head.chunked ? read_body_chunked(http, until)
				  : read_body_plain(http, max, until);
}

static void http_request_run_handler(struct net_http *http, const struct net_http_route *route)
{
	struct cairn_err err = {0};
	int rc = route->handler(http, route->arg, &err);

	if (rc == 0 && http->begun) {
		if (net_http_finish(http) < 0)
			http->close = true;
	} else if (!http->begun) {
		const char *text = rc < 0 && *err.msg ? err.msg : "no reply";

		(void)net_http_reply_text(http, rc < 0 ? net_http_status_of(rc) : 500, text, NULL);
	} else {
		http->broken = rc; /* the streamed reply is incomplete */
		http->close = true;
	}
}

/* Replies with 404, or with 405 and the methods that the path supports. */
static void refuse_route(struct net_http *http, const struct net_http_route *routes, size_t n,
			 bool known)
{
	cairn_auto_buf struct cairn_buf allow = CAIRN_BUF_INIT(1024);

	if (!known) {
		(void)net_http_reply_text(http, 404, "not found\n", NULL);
		return;
	}
	for (size_t i = 0; i < n; i++)
		if (path_fits(&routes[i], http->head.path))
			cairn_buf_addf(&allow, "%s%s", allow.len ? ", " : "", routes[i].method);
	cairn_buf_add(&allow, "", 1);
	if (!cairn_buf_failed(&allow))
		(void)net_http_add_field(http, "Allow", (const char *)allow.data, NULL);
	(void)net_http_reply_text(http, 405, "method not allowed\n", NULL);
}

bool net_http_serve(struct net_http *http, const struct net_http_route *routes, size_t n_routes)
{
	const struct net_http_route *route;
	cairn_auto_buf struct cairn_buf head = CAIRN_BUF_INIT(http->limits->header_bytes);
	size_t n = read_head(http);
	bool known;
	int status;

	if (n == 0)
		return false;
	net_slot_set(http->slot, NET_SLOT_BUSY);
	/* Copy the head, so that the body may be read through `in`. */
	cairn_buf_add(&head, http->in->data, n);
	cairn_buf_consume(http->in, n);
	if (cairn_buf_failed(&head))
		return false;
	status = net_http_head_parse((char *)head.data, head.len, &http->head);
	if (status) {
		http->head.method = NULL;
		net_http_refuse(http, status, "bad request\n");
		return false;
	}
	route = find_route(routes, n_routes, &http->head, &known);
	http->body.max = !route            ? BODY_FREE_BYTES
			 : route->body_max ? route->body_max
					   : http->limits->body_bytes;
	status = http_request_read_body(http, http->body.max);
	if (status < 0)
		return false;
	if (status == 408)
		net_limit_count(NET_LIMIT_REQUEST_TIME);
	else if (status == 413)
		net_limit_count(NET_LIMIT_MESSAGE_BYTES);
	if (status > 0)
		net_http_refuse(http, status, "bad request body\n");
	else if (route)
		http_request_run_handler(http, route);
	else
		refuse_route(http, routes, n_routes, known);
	return !http->close && !http->broken;
}
