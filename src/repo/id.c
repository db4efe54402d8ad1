/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/id.h"

#include <string.h>

#include "repo/repo_digest.h"

bool repo_id_of(const void *data, size_t n, struct repo_id *ret)
{
	const EVP_MD *md = repo_sha256();

	return md && EVP_Digest(data, n, ret->bytes, NULL, md, NULL) == 1;
}

bool repo_id_equal(const struct repo_id *a, const struct repo_id *b)
{
	return memcmp(a->bytes, b->bytes, REPO_ID_SIZE) == 0;
}

int repo_id_compare(const struct repo_id *a, const struct repo_id *b)
{
	return memcmp(a->bytes, b->bytes, REPO_ID_SIZE);
}

bool repo_id_is_zero(const struct repo_id *id)
{
	static const struct repo_id zero;

	return repo_id_equal(id, &zero);
}

const char *repo_id_format(const struct repo_id *id, char out[REPO_ID_TEXT_MAX])
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < REPO_ID_SIZE; i++) {
		out[2 * i] = digits[id->bytes[i] >> 4];
		out[2 * i + 1] = digits[id->bytes[i] & 15];
	}
	out[REPO_ID_TEXT_LEN] = '\0';
	return out;
}

/* Values of hex digits plus one; 0 for other characters. A table, because an index has a
 * million ids. */
static const uint8_t digits[256] = {
	['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
	['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
	['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
	['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

bool repo_id_parse(const char *text, size_t n, struct repo_id *ret)
{
	struct repo_id id;
	bool bad = false;

	if (n != REPO_ID_TEXT_LEN)
		return false;
	for (size_t i = 0; i < REPO_ID_SIZE; i++) {
		unsigned high = digits[(unsigned char)text[2 * i]];
		unsigned low = digits[(unsigned char)text[2 * i + 1]];

		bad |= high == 0 || low == 0;
		id.bytes[i] = (uint8_t)((high - 1) << 4 | (low - 1));
	}
	if (bad)
		return false;
	*ret = id;
	return true;
}
