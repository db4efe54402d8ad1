/* SPDX-License-Identifier: Apache-2.0 */

/* Long work: one line on the terminal that is rewritten, and an interrupt that
 * ends the work cleanly.
 *
 * The line appears on standard error, only when that is a terminal and only
 * when the work takes longer than half a second. While a progress is running
 * the first SIGINT or SIGTERM makes `cancelled` true; the second one kills.
 */
#ifndef CAIRN_CLI_PROGRESS_H
#define CAIRN_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/store/store.h"

struct cmd_progress {
	const char *what; /* "comparing" */
	bool shown;       /* standard error is a terminal that wants it */
	bool drawn;
	uint64_t begun_ns;
	uint64_t next_ns; /* not drawn before */
	struct store_progress hooks;
};

void cmd_progress_begin(struct cmd_progress *progress, const char *what);

/* Removes the line until it is drawn again: something else is to be said. */
void cmd_progress_clear(struct cmd_progress *progress);

/* Removes the line. */
void cmd_progress_end(struct cmd_progress *progress);

/* Lets SIGINT and SIGTERM set a flag instead of ending the process. */
void cmd_catch_interrupts(void);

/* The signal that asked for the end, or 0. */
int cmd_interrupted(void);

#endif
