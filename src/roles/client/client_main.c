/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn list`, and of `cairn verify` for devices. */

#include <stddef.h>

#include "cli/commands.h"
#include "roles/client/list.h"
#include "roles/client/verify_devices.h"
#include "roles/role.h"

int main(int argc, char **argv)
{
	static const struct command *const commands[] = {&cmd_list_command, &cmd_verify_command,
							 NULL};
	static const struct command_runner runners[] = {
		{.command = &cmd_list_command, .run = client_list_run},
		{.command = &cmd_verify_command, .run = client_verify_run},
		{.command = NULL},
	};
	static const struct role role = {.commands = commands, .runners = runners};

	return role_main(&role, argc, argv);
}
