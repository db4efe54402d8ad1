/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/num.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/options.h"

#define BUFFER_BYTES 65536
#define FACT_COLUMNS 16

static char buffer[BUFFER_BYTES];
static size_t used;
static int failed_errno;

static void output_flush(void)
{
	if (used > 0 && !failed_errno && cairn_write_full(STDOUT_FILENO, buffer, used) < 0)
		failed_errno = errno;
	used = 0;
}

char *cmd_out_reserve(size_t n)
{
	if (n > sizeof(buffer) - used)
		output_flush();
	return buffer + used;
}

void cmd_out_advance(size_t n)
{
	used += n;
}

char *cmd_put_right(char *to, uint64_t value, size_t columns)
{
	char digits[20];
	size_t n = cairn_format_u64(value, digits);
	size_t pad = columns > n ? columns - n : 0;

	memset(to, ' ', pad);
	memcpy(to + pad, digits, n);
	return to + pad + n;
}

void cmd_out_write(const void *data, size_t n)
{
	const char *bytes = data;

	while (n > 0) {
		size_t part = n < CMD_OUT_RESERVE_MAX ? n : CMD_OUT_RESERVE_MAX;

		memcpy(cmd_out_reserve(part), bytes, part);
		cmd_out_advance(part);
		bytes += part;
		n -= part;
	}
}

void cmd_out_text(const char *text)
{
	cmd_out_write(text, strlen(text));
}

void cmd_out_repeat(char c, size_t n)
{
	for (; n > 0; n--)
		cmd_out_write(&c, 1);
}

static void out_format(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

static void out_format(const char *fmt, va_list args)
{
	char *to = cmd_out_reserve(CMD_OUT_RESERVE_MAX);
	int n = vsnprintf(to, CMD_OUT_RESERVE_MAX, fmt, args);

	if (n > 0)
		cmd_out_advance((size_t)n < CMD_OUT_RESERVE_MAX ? (size_t)n
								: CMD_OUT_RESERVE_MAX - 1);
}

void cmd_outf(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	out_format(fmt, args);
	va_end(args);
}

bool cmd_out_failed(void)
{
	return failed_errno != 0;
}

int cmd_out_finish(struct cairn_err *err)
{
	output_flush();
	if (failed_errno)
		return cairn_err_sys(err, failed_errno, "write output");
	return 0;
}

void cmd_out_fact(const char *name, const char *fmt, ...)
{
	size_t columns = cairn_text_columns(name);
	va_list args;

	cmd_out_text(name);
	cmd_out_repeat(' ', columns < FACT_COLUMNS ? FACT_COLUMNS - columns : 1);
	va_start(args, fmt);
	out_format(fmt, args);
	va_end(args);
	cmd_out_text("\n");
}

/* Prints one line, without control characters that a terminal would interpret: an error
 * message may contain names from any source. */
static void write_line(char *text)
{
	char line[CAIRN_ERR_TEXT_MAX + 32];
	int n;

	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	n = snprintf(line, sizeof(line), "cairn: %s\n", text);
	if (n > 0)
		(void)cairn_write_full(STDERR_FILENO, line, (size_t)n);
}

void cmd_note(const char *fmt, ...)
{
	char text[CAIRN_ERR_TEXT_MAX];
	va_list args;

	if (cmd_options.quiet)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	write_line(text);
}

static void report_json(const struct cairn_err *err, int status)
{
	struct cairn_json json;

	cairn_json_init(&json, STDERR_FILENO, false);
	cairn_json_object_begin(&json);
	cairn_json_key(&json, "error");
	cairn_json_string(&json, err->code == CMD_USAGE ? "USAGE" : cairn_code_name(err->code));
	cairn_json_key(&json, "exit_status");
	cairn_json_i64(&json, status);
	cairn_json_key(&json, "message");
	cairn_json_string(&json, err->msg);
	cairn_json_object_end(&json);
	cairn_json_newline(&json);
	(void)cairn_json_finish(&json, NULL);
}

void cmd_report_error(const struct cairn_err *err)
{
	char text[CAIRN_ERR_TEXT_MAX];

	if (cmd_options.output != CMD_OUTPUT_TABLE) {
		report_json(err, cmd_exit_status(err->code));
		return;
	}
	memcpy(text, err->msg, sizeof(text));
	text[sizeof(text) - 1] = '\0';
	write_line(text);
}
