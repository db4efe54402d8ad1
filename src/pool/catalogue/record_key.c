/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/record_key.h"

#include <string.h>

static void record_key_add_char(struct ledger_key *key, char c)
{
	key->text[key->len++] = c;
}

static void record_key_add_hex(struct ledger_key *key, uint64_t value)
{
	static const char digits[] = "0123456789abcdef";

	for (int shift = 60; shift >= 0; shift -= 4)
		record_key_add_char(key, digits[value >> shift & 15]);
}

static void record_key_add_text(struct ledger_key *key, const char *text)
{
	size_t n = strnlen(text, sizeof(key->text) - key->len);

	memcpy(key->text + key->len, text, n);
	key->len += n;
}

struct ledger_key pool_records_key_kind(char kind)
{
	struct ledger_key key = {.len = 0};

	record_key_add_char(&key, kind);
	record_key_add_char(&key, '/');
	return key;
}

struct ledger_key pool_records_key_number(char kind, uint64_t a)
{
	struct ledger_key key = pool_records_key_kind(kind);

	record_key_add_hex(&key, a);
	return key;
}

struct ledger_key pool_records_key_under(char kind, uint64_t a)
{
	struct ledger_key key = pool_records_key_number(kind, a);

	record_key_add_char(&key, '/');
	return key;
}

struct ledger_key pool_records_key_pair(char kind, uint64_t a, uint64_t b)
{
	struct ledger_key key = pool_records_key_under(kind, a);

	record_key_add_hex(&key, b);
	return key;
}

struct ledger_key pool_records_key_text(char kind, const char *text)
{
	struct ledger_key key = pool_records_key_kind(kind);

	record_key_add_text(&key, text);
	return key;
}

struct ledger_key pool_records_key_named(char kind, uint64_t a, const char *text)
{
	struct ledger_key key = pool_records_key_under(kind, a);

	record_key_add_text(&key, text);
	return key;
}

struct catalogue_bytes pool_records_key_bytes(const struct ledger_key *key)
{
	return (struct catalogue_bytes){key->text, key->len};
}

bool pool_records_key_parse_hex(const char *at, size_t n, uint64_t *ret)
{
	uint64_t value = 0;

	if (n < LEDGER_HEX)
		return false;
	for (size_t i = 0; i < LEDGER_HEX; i++) {
		char c = at[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*ret = value;
	return true;
}
