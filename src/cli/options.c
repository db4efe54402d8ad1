/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/options.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/num.h"
#include "pool/pool.h"

#define COLUMNS_DEFAULT 80
#define COLUMNS_MAX     1000 /* a wider COLUMNS is a mistake, not a terminal */

struct cmd_options cmd_options = {
	.log_level = CAIRN_LOG_WARN,
	.lock_wait_ms = POOL_LOCK_WAIT_DEFAULT_MS,
};

static const char *const output_choices[] = {"table", "json", "ndjson", NULL};
static const char *const color_choices[] = {"auto", "always", "never", NULL};
static const char *const level_choices[] = {"error", "warn", "info", "debug", NULL};
static const char *const format_choices[] = {"text", "json", NULL};

const struct cairn_flag cmd_global_flags[] = {
	CAIRN_FLAG_VALUE(STRING, "pool", cmd_options.pool, "DIR",
			 "the pool (default: $CAIRN_POOL, or " POOL_DEFAULT_DIR ")"),
	{.name = "quiet",
	 .letter = 'q',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_options.quiet,
	 .help = "print only what was asked for"},
	CAIRN_FLAG_SWITCH("no-progress", cmd_options.no_progress, "draw no progress on a terminal"),
	{.name = "color",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &cmd_options.color,
	 .choices = color_choices,
	 .help = "colour (default: auto: terminal, and no $NO_COLOR)"},
	CAIRN_FLAG_VALUE(DURATION, "lock-wait", cmd_options.lock_wait_ms, "TIME",
			 "time to wait for a busy volume (default: 30s)"),
	{.name = "log-level",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &cmd_options.log_level,
	 .choices = level_choices,
	 .given = &cmd_options.log_level_given,
	 .help = "log from this level on (default: warn)"},
	{.name = "log-format",
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &cmd_options.log_format,
	 .choices = format_choices,
	 .help = "form of log lines (default: text)"},
	{.name = "help",
	 .letter = 'h',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &cmd_options.help,
	 .help = "show help for the command and exit"},
	CAIRN_FLAG_SWITCH("version", cmd_options.version, "show the version and exit"),
	CAIRN_FLAG_END,
};

const struct cairn_flag cmd_output_flags[] = {
	{.name = "output",
	 .letter = 'o',
	 .kind = CAIRN_FLAG_CHOICE,
	 .target = &cmd_options.output,
	 .choices = output_choices,
	 .given = &cmd_options.output_given,
	 .help = "form of the output (default: table)"},
	CAIRN_FLAG_END,
};

const char *cmd_pool_dir(void)
{
	const char *from_env = getenv("CAIRN_POOL");

	if (cmd_options.pool)
		return cmd_options.pool;
	return from_env && *from_env ? from_env : POOL_DEFAULT_DIR;
}

bool cmd_use_color(int fd)
{
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	if (strcmp(color_choices[cmd_options.color], "auto") != 0)
		return strcmp(color_choices[cmd_options.color], "always") == 0;
	if (no_color && *no_color)
		return false;
	return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

bool cmd_use_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	/* The names are read without setlocale(): loading a locale takes longer
	 * than most commands. */
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

size_t cmd_terminal_columns(void)
{
	const char *from_env = getenv("COLUMNS");
	struct winsize size;
	uint64_t columns;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	if (from_env && cairn_parse_u64(from_env, &columns, NULL) == 0 && columns > 0 &&
	    columns <= COLUMNS_MAX)
		return columns;
	return COLUMNS_DEFAULT;
}
