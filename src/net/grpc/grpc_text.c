/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/grpc_text.h"

#include <string.h>

#include "base/clock.h"
#include "base/num.h"

static const char hex_digits[] = "0123456789ABCDEF";

static int grpc_text_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

size_t grpc_percent_encode(const char *text, size_t n, char *out)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];
		bool at_edge = i == 0 || i == n - 1;

		if (c > ' ' && c <= '~' && c != '%') {
			out[at++] = (char)c;
		} else if (c == ' ' && !at_edge) {
			out[at++] = (char)c;
		} else {
			out[at++] = '%';
			out[at++] = hex_digits[c >> 4];
			out[at++] = hex_digits[c & 15];
		}
	}
	return at;
}

size_t grpc_percent_decode(const char *text, size_t n, char *out)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		int high = -1, low = -1;

		if (text[i] == '%' && n - i > 2) {
			high = grpc_text_hex_value(text[i + 1]);
			low = grpc_text_hex_value(text[i + 2]);
		}
		if (high >= 0 && low >= 0) {
			out[at++] = (char)(high << 4 | low);
			i += 2;
		} else {
			out[at++] = text[i];
		}
	}
	return at;
}

static const struct {
	char letter;
	uint64_t ns;
} units[] = {
	{'n', 1},
	{'u', 1000},
	{'m', CAIRN_NS_PER_MS},
	{'S', CAIRN_NS_PER_SEC},
	{'M', 60 * CAIRN_NS_PER_SEC},
	{'H', 3600 * CAIRN_NS_PER_SEC},
};

#define N_UNITS (sizeof(units) / sizeof(units[0]))

bool grpc_timeout_parse(const char *text, size_t n, uint64_t *ret_ns)
{
	uint64_t value = 0;

	if (n < 2 || n > 9)
		return false;
	for (size_t i = 0; i + 1 < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	for (size_t u = 0; u < N_UNITS; u++) {
		if (units[u].letter == text[n - 1]) {
			if (__builtin_mul_overflow(value, units[u].ns, ret_ns))
				*ret_ns = UINT64_MAX;
			return true;
		}
	}
	return false;
}

size_t grpc_timeout_format(uint64_t ns, char out[GRPC_TIMEOUT_TEXT_MAX])
{
	const uint64_t most = 99999999;
	size_t u = 0, len;
	uint64_t value = ns;

	while (value > most && u + 1 < N_UNITS) {
		u++;
		value = ns / units[u].ns + (ns % units[u].ns != 0);
	}
	if (value > most)
		value = most;
	len = cairn_format_u64(value, out);
	out[len++] = units[u].letter;
	out[len] = '\0';
	return len;
}

bool grpc_name_valid(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = name[i];

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
		      c == '.'))
			return false;
	}
	return n > 0;
}

bool grpc_name_reserved(const char *name, size_t n)
{
	static const char *const kept[] = {"content-type",      "te",         "user-agent",
					   "connection",        "keep-alive", "proxy-connection",
					   "transfer-encoding", "upgrade",    "host",
					   "content-length"};

	if (n > 0 && name[0] == ':')
		return true;
	if (n >= 5 && memcmp(name, "grpc-", 5) == 0)
		return true;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (strlen(kept[i]) == n && memcmp(kept[i], name, n) == 0)
			return true;
	}
	return false;
}

bool grpc_name_is_bin(const char *name, size_t n)
{
	return n > 4 && memcmp(name + n - 4, "-bin", 4) == 0;
}

bool grpc_value_valid(const char *value, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (value[i] < ' ' || value[i] > '~')
			return false;
	}
	return n == 0 || (value[0] != ' ' && value[n - 1] != ' ');
}

bool grpc_content_type_valid(const char *value, size_t n)
{
	static const char want[] = "application/grpc";
	const size_t len = sizeof(want) - 1;

	if (n < len || memcmp(value, want, len) != 0)
		return false;
	return n == len || value[len] == '+' || value[len] == ';';
}

bool grpc_path_valid(const char *path, size_t n)
{
	const char *slash;

	if (n < 4 || path[0] != '/')
		return false;
	for (size_t i = 0; i < n; i++) {
		if (path[i] <= ' ' || path[i] > '~')
			return false;
	}
	slash = memchr(path + 1, '/', n - 1);
	if (!slash || slash == path + 1 || slash == path + n - 1)
		return false;
	return !memchr(slash + 1, '/', (size_t)(path + n - slash - 1));
}
