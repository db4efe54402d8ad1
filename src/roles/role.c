/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/role.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/plugin.h"
#include "cli/program.h"

/* Number of glibc's heaps. The default is eight per processor, and memory that a burst of
 * calls has freed in one heap is of no use to another. */
#define ARENAS 2

static void remove_gnutls_variable(void)
{
	const char *value = getenv(CMD_PROGRAM_GNUTLS);

	if (value && strcmp(value, CMD_PROGRAM_GNUTLS_VALUE) == 0)
		unsetenv(CMD_PROGRAM_GNUTLS);
}

int role_main(const struct role *role, int argc, char **argv)
{
	const struct command root = {
		.name = argc > 0 && cmd_is_plugin(argv[0]) ? CMD_PLUGIN_NAME : "cairn",
		.summary = "the program of a role; start it as 'cairn'",
		.subcommands = role->commands,
	};
	const struct command_program program = {
		.root = &root,
		.runners = role->runners,
		.suggest = role->suggest,
	};

	remove_gnutls_variable();
	role_keep_memory_private(role->is_server);
	mallopt(M_ARENA_MAX, ARENAS);
	/* Drop pages that only the start needed. */
	cairn_mem_drop_clean();
	return cmd_command_main(&program, argc, argv);
}

int role_server_main(const struct command *command, int (*run)(struct cairn_err *err), int argc,
		     char **argv)
{
	const struct command *const commands[] = {command, NULL};
	const struct command_runner runners[] = {{.command = command, .run = run},
						 {.command = NULL}};
	const struct role role = {.commands = commands, .runners = runners, .is_server = true};

	return role_main(&role, argc, argv);
}
