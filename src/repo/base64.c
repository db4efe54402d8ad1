/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/base64.h"

#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/buf.h"

void repo_base64_add(struct cairn_buf *out, const uint8_t *data, size_t n)
{
	/* The coder also writes a NUL. */
	void *at = n <= INT_MAX / 2 ? cairn_buf_reserve(out, (n + 2) / 3 * 4 + 1) : NULL;

	if (at)
		out->len += (size_t)EVP_EncodeBlock(at, data, (int)n);
	else
		out->failed = true;
}

bool repo_base64_parse(const char *text, uint8_t *out, size_t max, size_t *ret_n)
{
	uint8_t four[3];
	size_t n = strlen(text), padding = 0, done = 0;

	if (n % 4 != 0 || n == 0 || strpbrk(text, " \t\r\n"))
		return false;
	while (padding < 2 && text[n - 1 - padding] == '=')
		padding++;
	if (n / 4 * 3 - padding > max || strcspn(text, "=") != n - padding)
		return false;
	/* Four by four: the coder writes whole threes, also beyond what padding
	 * leaves. */
	for (size_t i = 0; i < n; i += 4) {
		size_t want = i + 4 == n ? 3 - padding : 3;

		if (EVP_DecodeBlock(four, (const uint8_t *)text + i, 4) != 3)
			return false;
		memcpy(out + done, four, want);
		done += want;
	}
	*ret_n = done;
	return true;
}
