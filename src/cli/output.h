/* SPDX-License-Identifier: Apache-2.0 */

/* Standard output of a command: buffered, and never silently lost.
 *
 * The first failed write sticks: later ones do nothing, and cmd_out_finish(),
 * which cmd_command_main() calls after every command, turns it into an error. A
 * command that prints without end asks cmd_out_failed() now and then.
 *
 * One for the process, one thread.
 */
#ifndef CAIRN_CLI_OUTPUT_H
#define CAIRN_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct cairn_err;

#define CMD_OUT_RESERVE_MAX 4096

/* Room for `n` (at most CMD_OUT_RESERVE_MAX) bytes; cmd_out_advance() then says
 * how many were written there. For hot loops. */
char *cmd_out_reserve(size_t n);
void cmd_out_advance(size_t n);

/* For filling that room: each returns the end of what it put. A text must be a literal. */
#define CMD_PUT(to, text) (memcpy((to), (text), sizeof(text) - 1), (to) + sizeof(text) - 1)
char *cmd_put_right(char *to, uint64_t value, size_t columns); /* decimal, after blanks */

void cmd_out_write(const void *data, size_t n);
void cmd_out_text(const char *text);
void cmd_out_repeat(char c, size_t n);
__attribute__((format(printf, 1, 2))) void cmd_outf(const char *fmt, ...);

bool cmd_out_failed(void);
int cmd_out_finish(struct cairn_err *err);

/* "name          value": one fact of a record, aligned for `info` commands. */
__attribute__((format(printf, 2, 3))) void cmd_out_fact(const char *name, const char *fmt, ...);

/* A remark for people on standard error, unless --quiet: "cairn: text". */
__attribute__((format(printf, 1, 2))) void cmd_note(const char *fmt, ...);

/* The one line (or JSON object) on standard error that says why a command
 * failed. */
void cmd_report_error(const struct cairn_err *err);

#endif
