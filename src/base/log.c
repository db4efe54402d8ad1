/* SPDX-License-Identifier: Apache-2.0 */

#include "base/log.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/text.h"

#define LINE_MAX_BYTES 8192 /* limits the effect of values from outside */

static enum cairn_log_level log_level = CAIRN_LOG_WARN;
static enum cairn_log_format log_format = CAIRN_LOG_TEXT;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void cairn_log_setup(enum cairn_log_level level, enum cairn_log_format format)
{
	log_level = level;
	log_format = format;
}

bool cairn_log_enabled(enum cairn_log_level level)
{
	return level <= log_level;
}

int cairn_log_level_parse(const char *text)
{
	for (int i = 0; i < 4; i++)
		if (strcmp(text, level_names[i]) == 0)
			return i;
	return -1;
}

/* Escapes everything that could break the line or a terminal. */
static void log_add_escaped(struct cairn_buf *line, const char *text)
{
	char code[CAIRN_JSON_ESCAPE_MAX];
	size_t used;

	for (const char *p = text; *p; p += used) {
		size_t n = cairn_json_escape(p, code, &used);

		cairn_buf_add(line, code, n);
	}
}

static void add_quoted(struct cairn_buf *line, const char *text)
{
	cairn_buf_addc(line, '"');
	log_add_escaped(line, text);
	cairn_buf_addc(line, '"');
}

static bool needs_quotes(const char *text)
{
	return !*text || strpbrk(text, " \"\\=") || !cairn_text_printable(text, strlen(text));
}

static void log_add_value(struct cairn_buf *line, const struct cairn_log_field *field)
{
	switch (field->kind) {
	case CAIRN_FIELD_STR:
		if (!field->value.str)
			cairn_buf_adds(line, "null");
		else if (log_format != CAIRN_LOG_TEXT || needs_quotes(field->value.str))
			add_quoted(line, field->value.str);
		else
			cairn_buf_adds(line, field->value.str);
		break;
	case CAIRN_FIELD_U64:
		cairn_buf_addf(line, "%" PRIu64, field->value.u64);
		break;
	case CAIRN_FIELD_I64:
		cairn_buf_addf(line, "%" PRId64, field->value.i64);
		break;
	case CAIRN_FIELD_BOOL:
		cairn_buf_adds(line, field->value.boolean ? "true" : "false");
		break;
	}
}

static void log_add_json(struct cairn_buf *line, enum cairn_log_level level, const char *msg,
			 const struct cairn_log_field *fields, unsigned n)
{
	char now[CAIRN_TIME_TEXT_MAX];

	if (log_format == CAIRN_LOG_HCLOG)
		cairn_buf_addf(line, "{\"@level\":\"%s\",\"@message\":", level_names[level]);
	else
		cairn_buf_addf(line, "{\"time\":\"%s\",\"level\":\"%s\",\"msg\":",
			       cairn_format_time(cairn_now_ns(), now), level_names[level]);
	add_quoted(line, msg);
	for (unsigned i = 0; i < n; i++) {
		cairn_buf_addc(line, ',');
		add_quoted(line, fields[i].key);
		cairn_buf_addc(line, ':');
		log_add_value(line, &fields[i]);
	}
	cairn_buf_adds(line, "}");
}

static void log_add_text(struct cairn_buf *line, enum cairn_log_level level, const char *msg,
			 const struct cairn_log_field *fields, unsigned n)
{
	char now[CAIRN_TIME_TEXT_MAX];

	cairn_buf_addf(line, "%s %-5s ", cairn_format_time(cairn_now_ns(), now),
		       level_names[level]);
	if (cairn_text_printable(msg, strlen(msg)))
		cairn_buf_adds(line, msg);
	else
		log_add_escaped(line, msg);
	for (unsigned i = 0; i < n; i++) {
		cairn_buf_addf(line, " %s=", fields[i].key);
		log_add_value(line, &fields[i]);
	}
}

static bool make_line(struct cairn_buf *line, enum cairn_log_level level, const char *msg,
		      const struct cairn_log_field *fields, unsigned n)
{
	cairn_buf_reset(line);
	if (log_format != CAIRN_LOG_TEXT)
		log_add_json(line, level, msg, fields, n);
	else
		log_add_text(line, level, msg, fields, n);
	cairn_buf_addc(line, '\n');
	return !cairn_buf_failed(line);
}

void cairn_log_write(enum cairn_log_level level, const char *msg,
		     const struct cairn_log_field *fields, unsigned n)
{
	cairn_auto_buf struct cairn_buf line = CAIRN_BUF_INIT(LINE_MAX_BYTES);

	/* If it is too long, the message alone is better than a truncated line. */
	if (make_line(&line, level, msg, fields, n) || make_line(&line, level, msg, NULL, 0) ||
	    make_line(&line, level, "a message too long to log", NULL, 0))
		(void)cairn_write_full(STDERR_FILENO, line.data, line.len);
}
