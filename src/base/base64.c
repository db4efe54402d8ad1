/* SPDX-License-Identifier: Apache-2.0 */

#include "base/base64.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t cairn_base64_length(size_t n)
{
	return n / 3 * 4 + (n % 3 ? n % 3 + 1 : 0);
}

size_t cairn_base64_encode(const uint8_t *data, size_t n, char *out)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i += 3) {
		size_t have = n - i < 3 ? n - i : 3;
		uint32_t bits = (uint32_t)data[i] << 16;

		if (have > 1)
			bits |= (uint32_t)data[i + 1] << 8;
		if (have > 2)
			bits |= data[i + 2];
		for (size_t k = 0; k <= have; k++)
			out[at++] = digits[bits >> (18 - 6 * k) & 63];
	}
	return at;
}

static int base64_value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

bool cairn_base64_decode(const char *text, size_t n, uint8_t *out, size_t *ret_n)
{
	uint32_t bits = 0;
	size_t at = 0;

	if (n % 4 == 0 && n > 0 && text[n - 1] == '=')
		n -= text[n - 2] == '=' ? 2 : 1;
	if (n % 4 == 1)
		return false;
	for (size_t i = 0; i < n; i++) {
		int value = base64_value_of(text[i]);

		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
		if (i % 4 != 0)
			out[at++] = (uint8_t)(bits >> (6 - i % 4 * 2));
	}
	*ret_n = at;
	return true;
}

void cairn_base64_add(struct cairn_buf *out, const void *data, size_t n)
{
	size_t len = cairn_base64_length(n);
	char *at = cairn_buf_reserve(out, len);

	if (at)
		out->len += cairn_base64_encode(data, n, at);
	for (; len % 4 != 0; len++)
		cairn_buf_addc(out, '=');
}

bool cairn_base64_decode_padded(const char *text, uint8_t *out, size_t max, size_t *ret_n)
{
	size_t n = strlen(text), padding = 0;

	if (n % 4 != 0 || n == 0)
		return false;
	while (padding < 2 && text[n - 1 - padding] == '=')
		padding++;
	return n / 4 * 3 - padding <= max && cairn_base64_decode(text, n, out, ret_n);
}

char *cairn_base64_text(const char *text, size_t n)
{
	size_t kept = 0, got;
	char *bytes = cairn_alloc(n + 1);

	if (!bytes)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (!text[i] || !strchr(" \t\r\n", text[i]))
			bytes[kept++] = text[i];
	if (cairn_base64_decode(bytes, kept, (uint8_t *)bytes, &got) && !memchr(bytes, 0, got)) {
		explicit_bzero(bytes + got, n + 1 - got);
		return bytes;
	}
	explicit_bzero(bytes, n + 1);
	free(bytes);
	return NULL;
}
