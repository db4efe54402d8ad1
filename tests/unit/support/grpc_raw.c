/* SPDX-License-Identifier: Apache-2.0 */

#include "grpc_raw.h"

#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cairntest.h"

void raw_flush(struct raw *raw)
{
	size_t at = 0;

	while (at < raw->n && !raw->broken) {
		ssize_t sent =
			send(raw->fd, raw->out + at, raw->n - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0) {
			at += (size_t)sent;
		} else if (errno == EAGAIN) {
			struct pollfd p = {.fd = raw->fd, .events = POLLOUT | POLLIN};
			uint8_t drop[4096];

			poll(&p, 1, 100);
			/* A peer that never reads would block itself out. */
			if ((p.revents & POLLIN) &&
			    recv(raw->fd, drop, sizeof(drop), MSG_DONTWAIT) > 0)
				raw->dropped = true;
		} else {
			raw->broken = true;
		}
	}
	raw->n = 0;
}

void raw_put(struct raw *raw, const void *data, size_t n)
{
	if (n > sizeof(raw->out) - raw->n)
		raw_flush(raw);
	memcpy(raw->out + raw->n, data, n);
	raw->n += n;
}

void raw_put_frame(struct raw *raw, uint8_t type, uint8_t flags, uint32_t id, const void *data,
		   uint32_t n)
{
	uint8_t head[9] = {
		(uint8_t)(n >> 16),  (uint8_t)(n >> 8),   (uint8_t)n,         type,       flags,
		(uint8_t)(id >> 24), (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};

	raw_put(raw, head, sizeof(head));
	if (n > 0)
		raw_put(raw, data, n);
}

size_t raw_field(uint8_t *at, const char *name, const char *value)
{
	size_t n = strlen(name), v = strlen(value), k = 0;

	assert_true(n < 127 && v < 127);
	at[k++] = 0;
	at[k++] = (uint8_t)n;
	memcpy(at + k, name, n);
	k += n;
	at[k++] = (uint8_t)v;
	memcpy(at + k, value, v);
	return k + v;
}

size_t raw_request_block(uint8_t at[512], const char *path)
{
	size_t k = 0;

	at[k++] = 0x83; /* :method POST */
	at[k++] = 0x86; /* :scheme http */
	k += raw_field(at + k, ":path", path);
	k += raw_field(at + k, ":authority", "x");
	k += raw_field(at + k, "te", "trailers");
	return k + raw_field(at + k, "content-type", "application/grpc");
}

void raw_put_request(struct raw *raw, uint32_t id, const char *path)
{
	uint8_t block[512];

	raw_put_frame(raw, RAW_HEADERS, RAW_END_HEADERS, id, block,
		      (uint32_t)raw_request_block(block, path));
}

void raw_connect(struct raw *raw, const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	*raw = (struct raw){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	assert_true(raw->fd >= 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	assert_int_equal(connect(raw->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

void raw_greet(struct raw *raw, const char *path)
{
	raw_connect(raw, path);
	raw_put(raw, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	raw_put_frame(raw, RAW_SETTINGS, 0, 0, NULL, 0);
}

bool raw_read_all(int fd, uint8_t *at, size_t n)
{
	while (n > 0) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t got = poll(&p, 1, RAW_WAIT_MS) == 1 ? read(fd, at, n) : -1;

		if (got <= 0)
			return false;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

static uint32_t number_at(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Adds the fields of a header block to the text. */
static void decode(nghttp2_hd_inflater *inflater, struct raw_reply *reply, const uint8_t *block,
		   size_t n)
{
	for (;;) {
		nghttp2_nv nv;
		int flags = 0;
		ssize_t used = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, block, n, 1);

		if (used < 0)
			fail_msg("a header block can not be decoded: %zd", used);
		block += used;
		n -= (size_t)used;
		if (flags & NGHTTP2_HD_INFLATE_EMIT)
			reply->text_len += (size_t)snprintf(reply->text + reply->text_len,
							    sizeof(reply->text) - reply->text_len,
							    "%.*s: %.*s\n", (int)nv.namelen,
							    (const char *)nv.name, (int)nv.valuelen,
							    (const char *)nv.value);
		assert_true(reply->text_len < sizeof(reply->text));
		if (flags & NGHTTP2_HD_INFLATE_FINAL)
			break;
	}
	nghttp2_hd_inflate_end_headers(inflater);
}

static void note(nghttp2_hd_inflater *inflater, struct raw_reply *reply, const uint8_t head[9],
		 const uint8_t *data, size_t n)
{
	uint8_t type = head[3];

	if (type == RAW_GOAWAY && n >= 8)
		reply->goaway = number_at(data + 4);
	if (type == RAW_RST_STREAM && n >= 4) {
		reply->resets++;
		reply->reset_error = number_at(data);
	}
	if (type == RAW_HEADERS) {
		reply->headers++;
		if (inflater)
			decode(inflater, reply, data, n);
	}
	if (type == RAW_DATA)
		reply->data += (uint32_t)n;
	if ((type == RAW_HEADERS || type == RAW_DATA) && (head[4] & RAW_END_STREAM))
		reply->ended = true;
}

static void read_frames(struct raw *raw, struct raw_reply *reply,
			bool (*done)(const struct raw_reply *reply, const void *arg),
			const void *arg)
{
	static uint8_t body[1 << 24];
	nghttp2_hd_inflater *inflater = NULL;
	uint8_t head[9];

	raw_flush(raw);
	if (!raw->dropped)
		assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
	*reply = (struct raw_reply){.goaway = RAW_NO_GOAWAY};
	while (!done(reply, arg) && raw_read_all(raw->fd, head, sizeof(head))) {
		size_t n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];

		if (!raw_read_all(raw->fd, body, n))
			break;
		note(inflater, reply, head, body, n);
	}
	reply->closed = !done(reply, arg);
	if (inflater)
		nghttp2_hd_inflate_del(inflater);
}

static bool has_headers(const struct raw_reply *reply, const void *arg)
{
	return reply->headers >= *(const uint32_t *)arg;
}

static bool has_ended(const struct raw_reply *reply, const void *arg)
{
	(void)arg;
	return reply->ended || reply->resets > 0;
}

static bool has_text(const struct raw_reply *reply, const void *arg)
{
	return strstr(reply->text, arg) != NULL;
}

void raw_read_reply(struct raw *raw, struct raw_reply *reply, uint32_t enough)
{
	read_frames(raw, reply, has_headers, &enough);
}

void raw_read_answer(struct raw *raw, struct raw_reply *reply)
{
	read_frames(raw, reply, has_ended, NULL);
}

void raw_read_until(struct raw *raw, struct raw_reply *reply, const char *text)
{
	read_frames(raw, reply, has_text, text);
}
