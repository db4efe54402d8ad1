/* SPDX-License-Identifier: Apache-2.0 */

/* The program of a heavy role.
 *
 * `cairn` executes it (cli/program.h) with the words of its own command line, which are
 * parsed here again with the same tables of flags into the same options: nothing is
 * copied between the two. What they share is linked into both.
 */
#ifndef CAIRN_ROLES_ROLE_H
#define CAIRN_ROLES_ROLE_H

#include <stdbool.h>

#include "cli/command.h"

struct role {
	const struct command *const *commands; /* of this program; NULL-terminated */
	const struct command_runner *runners;
	bool is_server; /* holds tokens, keys and passwords of others in memory */
	/* As in struct command_program. */
	void (*suggest)(const struct command *command, int argc, char **argv,
			struct cairn_err *err);
};

/* For main(): sets up memory and its privacy, then as cmd_command_main(). */
int role_main(const struct role *role, int argc, char **argv);

/* For a main() that does not call role_main(): no core files, and a server is not dumpable. */
void role_keep_memory_private(bool is_server);

/* The same for a server of one command. */
int role_server_main(const struct command *command, int (*run)(struct cairn_err *err), int argc,
		     char **argv);

#endif
