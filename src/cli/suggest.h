/* SPDX-License-Identifier: Apache-2.0 */

/* "Did you mean" for names of volumes and snapshots that are not there. */
#ifndef CAIRN_CLI_SUGGEST_H
#define CAIRN_CLI_SUGGEST_H

struct cairn_err;
struct command;

/* Adds the nearest name to an error that says that one of the arguments was not found.
 * Does nothing where there is none, or the error is another. */
void cmd_suggest(const struct command *command, int argc, char **argv, struct cairn_err *err);

#endif
