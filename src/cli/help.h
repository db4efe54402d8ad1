/* SPDX-License-Identifier: Apache-2.0 */

/* The --help text of any command, made from the tree. */
#ifndef CAIRN_CLI_HELP_H
#define CAIRN_CLI_HELP_H

struct cmd_path;

void cmd_help_print(const struct cmd_path *path);

#endif
