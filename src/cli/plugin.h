/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn` under the name kubectl-cairn: a plugin of kubectl, with a command tree for people who
 * have a kubeconfig and no pool. */
#ifndef CAIRN_CLI_PLUGIN_H
#define CAIRN_CLI_PLUGIN_H

#include <stdbool.h>

struct command;

/* The root of the plugin's commands. */
extern const struct command cmd_plugin;

/* True if argv[0] is the plugin's name. */
bool cmd_is_plugin(const char *argv0);

/* What users type: "kubectl cairn". */
#define CMD_PLUGIN_NAME "kubectl cairn"

#endif
