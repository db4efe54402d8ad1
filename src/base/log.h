/* SPDX-License-Identifier: Apache-2.0 */

/* Structured log lines on standard error.
 *
 * A line is a message and key=value pairs, as text for people or as one JSON object for
 * programs. Library code logs at debug level only; the code that handles an error logs it
 * once. Values are escaped; secrets must not be passed. Each line is one write(2), so
 * lines of different threads do not mix.
 */
#ifndef CAIRN_BASE_LOG_H
#define CAIRN_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum cairn_log_level {
	CAIRN_LOG_ERROR,
	CAIRN_LOG_WARN,
	CAIRN_LOG_INFO,
	CAIRN_LOG_DEBUG,
};

enum cairn_log_format {
	CAIRN_LOG_TEXT,
	CAIRN_LOG_JSON,
	CAIRN_LOG_HCLOG, /* JSON with the keys of HashiCorp's hclog and no time: a program that
	                    starts this one as its plugin adds the line to its own log */
};

/* One key=value; made by the macros below. */
struct cairn_log_field {
	const char *key;
	enum { CAIRN_FIELD_STR, CAIRN_FIELD_U64, CAIRN_FIELD_I64, CAIRN_FIELD_BOOL } kind;
	union {
		const char *str; /* NULL prints as null */
		uint64_t u64;
		int64_t i64;
		bool boolean;
	} value;
};

#define CAIRN_STR(k, v)                                               \
	{                                                             \
		.key = (k), .kind = CAIRN_FIELD_STR, .value.str = (v) \
	}
#define CAIRN_U64(k, v)                                               \
	{                                                             \
		.key = (k), .kind = CAIRN_FIELD_U64, .value.u64 = (v) \
	}
#define CAIRN_I64(k, v)                                               \
	{                                                             \
		.key = (k), .kind = CAIRN_FIELD_I64, .value.i64 = (v) \
	}
#define CAIRN_BOOL(k, v)                                                   \
	{                                                                  \
		.key = (k), .kind = CAIRN_FIELD_BOOL, .value.boolean = (v) \
	}

/* Applies to the whole process; call it before threads start. Default: warn, text. */
void cairn_log_setup(enum cairn_log_level level, enum cairn_log_format format);
bool cairn_log_enabled(enum cairn_log_level level);

/* "error", "warn", "info", "debug"; -1 for anything else. */
int cairn_log_level_parse(const char *text);

void cairn_log_write(enum cairn_log_level level, const char *msg,
		     const struct cairn_log_field *fields, unsigned n);

/* cairn_log(CAIRN_LOG_INFO, "snapshot made", CAIRN_STR("volume", id), …) */
#define cairn_log(level, msg, ...)                                                             \
	do {                                                                                   \
		if (cairn_log_enabled(level)) {                                                \
			const struct cairn_log_field cairn_fields_[] = {{.key = NULL},         \
									##__VA_ARGS__};        \
			cairn_log_write((level), (msg), cairn_fields_ + 1,                     \
					sizeof(cairn_fields_) / sizeof(cairn_fields_[0]) - 1); \
		}                                                                              \
	} while (0)

#endif
