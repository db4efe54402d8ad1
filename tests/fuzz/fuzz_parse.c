/* SPDX-License-Identifier: Apache-2.0 */

/* What people type: numbers, sizes, times, flags and names. The input is the
 * words of a command line, with newlines between them. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/json.h"
#include "base/num.h"
#include "base/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WORDS_MAX 32

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void must_be_code(int rc, const struct cairn_err *err)
{
	must(rc == 0 || rc == CAIRN_INVALID || rc == CAIRN_RANGE);
	must(rc == err->code);
	must(strnlen(err->msg, sizeof(err->msg)) < sizeof(err->msg));
}

static void check_numbers(const char *word)
{
	struct cairn_err err = {0}, again = {0}, other = {0}, last = {0};
	uint64_t value = 0, back = 0, bytes = 0;
	int64_t number = 0;
	char text[32];
	int rc = cairn_parse_u64(word, &value, &err);

	must_be_code(rc, &err);
	if (rc == 0) {
		text[cairn_format_u64(value, text)] = '\0';
		must(cairn_parse_u64(text, &back, NULL) == 0 && back == value);
		must(cairn_parse_size(word, &bytes, NULL) == 0 && bytes == value);
	}
	rc = cairn_parse_i64(word, &number, &again);
	must_be_code(rc, &again);
	if (rc == 0 && number >= 0)
		must(word[0] == '-' || (uint64_t)number == value);
	rc = cairn_parse_size(word, &bytes, &other);
	must_be_code(rc, &other);
	if (rc == 0)
		must(strlen(cairn_format_size(bytes, text)) < CAIRN_SIZE_TEXT_MAX);
	must_be_code(cairn_parse_duration_ms(word, &value, &last), &last);
}

/* Every byte is taken by exactly one escape, and what comes out is printable. */
static void check_text(const char *word)
{
	size_t n = strlen(word), used, columns = cairn_text_columns(word);
	char code[CAIRN_JSON_ESCAPE_MAX];

	must(!cairn_text_printable(word, n) || cairn_utf8_valid(word, n));
	must(columns <= 2 * n);
	for (const char *p = word; *p; p += used) {
		size_t len = cairn_json_escape(p, code, &used);

		must(used > 0 && len > 0 && len <= sizeof(code));
		must(cairn_text_printable(code, len));
	}
}

static void check_flags(char **words, int n)
{
	static const char *const choices[] = {"table", "json", NULL};
	struct {
		bool on;
		const char *text;
		uint64_t number, size, time;
		int64_t shift;
		int choice;
	} got = {0};
	const struct cairn_flag flags[] = {
		{.name = "on", .letter = 'o', .kind = CAIRN_FLAG_BOOL, .target = &got.on},
		{.name = "text", .letter = 't', .kind = CAIRN_FLAG_STRING, .target = &got.text},
		{.name = "number", .letter = 'n', .kind = CAIRN_FLAG_U64, .target = &got.number},
		{.name = "shift", .kind = CAIRN_FLAG_I64, .target = &got.shift},
		{.name = "size", .letter = 's', .kind = CAIRN_FLAG_SIZE, .target = &got.size},
		{.name = "time", .kind = CAIRN_FLAG_DURATION, .target = &got.time},
		{.name = "format",
		 .kind = CAIRN_FLAG_CHOICE,
		 .target = &got.choice,
		 .choices = choices},
		CAIRN_FLAG_END,
	};
	const struct cairn_flag *const tables[] = {flags, NULL};
	struct cairn_err err = {0};
	int kept = -1;
	int rc = cairn_flags_parse(tables, n, words, 0, &kept, &err);

	must(rc == err.code);
	must(rc == 0 ? kept >= 0 && kept <= n : rc == CAIRN_INVALID && kept == -1);
	must(got.choice == 0 || got.choice == 1);
	for (int i = 0; i < kept; i++)
		must(words[i] != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1), *rest = copy;
	char *words[WORDS_MAX];
	uint32_t c;
	int n = 0;

	must(copy != NULL);
	memcpy(copy, data, size);
	copy[size] = '\0';
	(void)cairn_utf8_valid(copy, size);
	(void)cairn_text_printable(copy, size);
	if (size > 0)
		must(cairn_utf8_next(copy, size, &c) <= 4);
	while (rest && n < WORDS_MAX)
		words[n++] = strsep(&rest, "\n");
	for (int i = 0; i < n; i++) {
		check_numbers(words[i]);
		check_text(words[i]);
		if (i > 0)
			(void)cairn_text_distance(words[i - 1], words[i]);
	}
	check_flags(words, n);
	free(copy);
	return 0;
}
