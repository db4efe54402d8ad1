/* SPDX-License-Identifier: Apache-2.0 */

/* Interprets HTTP responses. */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "repo/repo_http.h"

/* Appends text to the reason, without control characters, which could disturb a terminal. */
static void add_why(struct repo_answer *answer, const char *text, size_t n)
{
	size_t used = strlen(answer->why);

	for (size_t i = 0; i < n && used < sizeof(answer->why) - 1; i++)
		answer->why[used++] = text[i] >= ' ' && text[i] < 0x7f ? text[i] : ' ';
	answer->why[used] = '\0';
}

/* Finds the text between <NAME> and </NAME>; false if there is no such element. */
static bool find_element(const struct cairn_buf *xml, const char *name, const char **ret,
			 size_t *ret_n)
{
	char open[32], close[32];
	const char *from, *to;

	snprintf(open, sizeof(open), "<%s>", name);
	snprintf(close, sizeof(close), "</%s>", name);
	from = memmem(xml->data, xml->len, open, strlen(open));
	if (!from)
		return false;
	from += strlen(open);
	to = memmem(from, xml->len - (size_t)(from - (const char *)xml->data), close,
		    strlen(close));
	*ret = from;
	*ret_n = to ? (size_t)(to - from) : 0;
	return to != NULL;
}

/* Makes one line: the code and message of an S3 error, or else the beginning of the text. */
void repo_http_keep_why(const struct cairn_buf *error, struct repo_answer *answer)
{
	const char *text;
	size_t n;

	answer->why[0] = '\0';
	if (error->len == 0)
		return;
	if (!find_element(error, "Code", &text, &n)) {
		add_why(answer, (const char *)error->data, error->len);
		return;
	}
	add_why(answer, text, n);
	if (find_element(error, "Message", &text, &n) && n > 0) {
		add_why(answer, ": ", 2);
		add_why(answer, text, n);
	}
}

static bool http_answer_good(long status)
{
	return status >= 200 && status < 300;
}

/* True for transient errors. Some transient errors of S3 have a status that is
 * otherwise permanent. */
static bool http_answer_passes(const struct repo_answer *answer)
{
	static const char *const codes[] = {"RequestTimeout", "OperationAborted", "SlowDown"};
	long status = answer->status;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (strncmp(answer->why, codes[i], strlen(codes[i])) == 0)
			return true;
	return status == 408 || status == 425 || status == 429 ||
	       (status >= 500 && status != 501 && status != 505);
}

int repo_http_status(const struct repo_answer *answer, struct cairn_err *err)
{
	long status = answer->status;
	int code = CAIRN_INTERNAL;

	if (http_answer_good(status))
		return 0;
	if (status == 404)
		code = CAIRN_NOT_FOUND;
	else if (status == 401)
		code = CAIRN_UNAUTHENTICATED;
	else if (status == 403)
		code = CAIRN_DENIED;
	else if (status == 416)
		code = CAIRN_RANGE;
	else if (status == 507 || status == 413)
		code = CAIRN_NO_SPACE;
	else if (http_answer_passes(answer))
		code = CAIRN_UNAVAILABLE;
	else if (status == 501)
		code = CAIRN_UNIMPLEMENTED;
	return cairn_err_set(err, code, "the server answered %ld%s%s", status,
			     answer->why[0] ? ": " : "", answer->why);
}

const char *repo_http_range(uint64_t offset, size_t n, char out[REPO_HTTP_RANGE_MAX])
{
	snprintf(out, REPO_HTTP_RANGE_MAX, "Range: bytes=%" PRIu64 "-%" PRIu64, offset,
		 offset + n - 1);
	return out;
}

int repo_http_length(const struct repo_answer *answer, uint64_t *ret, struct cairn_err *err)
{
	if (answer->length < 0)
		return cairn_err_set(err, CAIRN_INTERNAL, "the server does not report the size");
	*ret = (uint64_t)answer->length;
	return 0;
}

int repo_http_take(struct cairn_buf *text, uint8_t **ret_data, size_t *ret_n, struct cairn_err *err)
{
	size_t n = text->len;
	char *data = cairn_buf_take_string(text);

	if (!data)
		return cairn_err_nomem(err, "a file");
	*ret_data = (uint8_t *)data;
	*ret_n = n;
	return 0;
}
