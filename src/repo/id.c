/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/id.h"

#include <string.h>

#include "repo/digest.h"

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

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool repo_id_parse(const char *text, size_t n, struct repo_id *ret)
{
	struct repo_id id;

	if (n != REPO_ID_TEXT_LEN)
		return false;
	for (size_t i = 0; i < REPO_ID_SIZE; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		id.bytes[i] = (uint8_t)(high << 4 | low);
	}
	*ret = id;
	return true;
}
