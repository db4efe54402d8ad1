/* SPDX-License-Identifier: Apache-2.0 */

#include "base/err_replace.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

static bool err_replace_is_word(unsigned char c)
{
	return isalnum(c) || c == '-' || c == '_' || c >= 0x80;
}

void cairn_err_replace(struct cairn_err *err, const char *from, const char *to)
{
	char text[sizeof(err->msg)];
	size_t n = from ? strlen(from) : 0;
	size_t out = 0;
	bool inside = false;

	if (!err || n < CAIRN_ERR_WORD_MIN || !to)
		return;
	for (const char *at = err->msg; *at && out < sizeof(text) - 1;) {
		if (!inside && strncmp(at, from, n) == 0 &&
		    !err_replace_is_word((unsigned char)at[n])) {
			for (size_t i = 0; to[i] && out < sizeof(text) - 1; i++)
				text[out++] = to[i];
			at += n;
			continue;
		}
		inside = err_replace_is_word((unsigned char)*at);
		text[out++] = *at++;
	}
	while (out > 0 && !cairn_utf8_valid(text, out)) /* cut at a character boundary */
		out--;
	text[out] = '\0';
	memcpy(err->msg, text, out + 1);
}
