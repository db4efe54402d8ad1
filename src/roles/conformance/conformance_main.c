/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn conformance`. */

#include <stddef.h>

#include "cli/commands.h"
#include "conformance/options.h"
#include "roles/conformance/conformance_options.h"
#include "roles/role.h"

static int conformance_run(struct cairn_err *err)
{
	return conformance_suite_run(&conformance_options, err);
}

int main(int argc, char **argv)
{
	static const struct command *const commands[] = {&cmd_conformance, NULL};
	static const struct command_runner runners[] = {
		{.command = &cmd_conformance, .run = conformance_run},
		{.command = NULL},
	};
	static const struct role role = {.commands = commands, .runners = runners};

	return role_main(&role, argc, argv);
}
