/* SPDX-License-Identifier: Apache-2.0 */

/* The options that every command takes, and what follows from them. */
#ifndef CAIRN_CLI_OPTIONS_H
#define CAIRN_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/flags.h"

enum cmd_output {
	CMD_OUTPUT_TABLE,
	CMD_OUTPUT_JSON,
	CMD_OUTPUT_NDJSON,
};

struct cmd_options {
	bool help;
	bool version;
	const char *pool;
	int output; /* enum cmd_output */
	bool output_given;
	bool quiet;
	bool no_progress;
	int color; /* auto, always, never */
	int log_level;
	bool log_level_given;
	int log_format;
	uint64_t lock_wait_ms;
};

extern struct cmd_options cmd_options;
extern const struct cairn_flag cmd_global_flags[];
extern const struct cairn_flag cmd_output_flags[]; /* where --output applies */

/* --pool, else CAIRN_POOL, else the default. */
const char *cmd_pool_dir(void);

/* True if escape sequences may go to this descriptor. */
bool cmd_use_color(int fd);

/* True if the locale's characters are UTF-8. */
bool cmd_use_utf8(void);

/* Columns of the terminal on standard output; COLUMNS or 80 if it is not a terminal. */
size_t cmd_terminal_columns(void);

#endif
