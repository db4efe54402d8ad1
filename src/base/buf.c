/* SPDX-License-Identifier: Apache-2.0 */

#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FIRST_CAPACITY 64

void cairn_buf_init(struct cairn_buf *buf, size_t max)
{
	*buf = (struct cairn_buf)CAIRN_BUF_INIT(max);
}

void cairn_buf_done(struct cairn_buf *buf)
{
	free(buf->data);
	cairn_buf_init(buf, buf->max);
}

void cairn_buf_wipe(struct cairn_buf *buf)
{
	if (buf->data)
		explicit_bzero(buf->data, buf->cap); /* also what was consumed or reset */
	cairn_buf_done(buf);
}

void cairn_buf_reset(struct cairn_buf *buf)
{
	buf->len = 0;
	buf->failed = false;
}

/* Reserves one byte beyond `max` for the NUL of take_string. */
static bool buf_grow(struct cairn_buf *buf, size_t need)
{
	size_t cap = buf->cap ? buf->cap : FIRST_CAPACITY;
	uint8_t *data;

	while (cap < need)
		cap = cap > SIZE_MAX / 2 ? need : cap * 2;
	if (cap > buf->max && buf->max >= need)
		cap = buf->max; /* doubling must not exceed what the owner allows */
	data = cairn_realloc_array(buf->data, cap + 1, 1);
	if (!data)
		return false;
	buf->data = data;
	buf->cap = cap;
	return true;
}

void *cairn_buf_reserve(struct cairn_buf *buf, size_t n)
{
	if (buf->failed)
		return NULL;
	if (n > buf->max || buf->len > buf->max - n) {
		buf->failed = true;
		return NULL;
	}
	if ((!buf->data || buf->len + n > buf->cap) && !buf_grow(buf, buf->len + n)) {
		buf->failed = true;
		return NULL;
	}
	return buf->data + buf->len;
}

void cairn_buf_add(struct cairn_buf *buf, const void *data, size_t n)
{
	void *at = n ? cairn_buf_reserve(buf, n) : NULL;

	if (!at)
		return;
	memcpy(at, data, n);
	buf->len += n;
}

void cairn_buf_adds(struct cairn_buf *buf, const char *text)
{
	cairn_buf_add(buf, text, strlen(text));
}

void cairn_buf_addc(struct cairn_buf *buf, char c)
{
	cairn_buf_add(buf, &c, 1);
}

void cairn_buf_addf(struct cairn_buf *buf, const char *fmt, ...)
{
	va_list args;
	void *at;
	int n;

	va_start(args, fmt);
	n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	if (n < 0) {
		buf->failed = true;
		return;
	}
	at = cairn_buf_reserve(buf, (size_t)n); /* buf_grow() reserves a byte for the NUL */
	if (!at)
		return;
	va_start(args, fmt);
	vsnprintf(at, (size_t)n + 1, fmt, args);
	va_end(args);
	buf->len += (size_t)n;
}

void cairn_buf_add_varint(struct cairn_buf *buf, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	while (value >= 0x80) {
		bytes[n++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	bytes[n++] = (uint8_t)value;
	cairn_buf_add(buf, bytes, n);
}

void cairn_buf_consume(struct cairn_buf *buf, size_t n)
{
	if (n >= buf->len) {
		buf->len = 0;
		return;
	}
	memmove(buf->data, buf->data + n, buf->len - n);
	buf->len -= n;
}

bool cairn_buf_failed(const struct cairn_buf *buf)
{
	return buf->failed;
}

char *cairn_buf_take_string(struct cairn_buf *buf)
{
	char *text;

	/* Without data there is no place for the NUL of "". */
	if (buf->failed || (!buf->data && !buf_grow(buf, 0))) {
		cairn_buf_done(buf);
		return NULL;
	}
	text = (char *)buf->data;
	text[buf->len] = '\0';
	cairn_buf_init(buf, buf->max);
	return text;
}
