/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn list`, of `cairn verify` for devices, and of `kubectl cairn`. */

#include <stddef.h>

#include "cli/commands.h"
#include "roles/client/list.h"
#include "roles/client/plugin.h"
#include "roles/client/verify_devices.h"
#include "roles/role.h"

int main(int argc, char **argv)
{
	static const struct command *const commands[] = {
		&cmd_list_command,   &cmd_verify_command,   &cmd_plugin_nodes,
		&cmd_plugin_volumes, &cmd_plugin_snapshots, &cmd_plugin_delta,
		&cmd_plugin_map,     &cmd_plugin_backups,   NULL,
	};
	static const struct command_runner runners[] = {
		{.command = &cmd_list_command, .run = client_list_run},
		{.command = &cmd_verify_command, .run = client_verify_run},
		{.command = &cmd_plugin_nodes, .run = client_nodes_run},
		{.command = &cmd_plugin_volumes, .run = client_volumes_run},
		{.command = &cmd_plugin_snapshots, .run = client_snapshots_run},
		{.command = &cmd_plugin_delta, .run = client_delta_run},
		{.command = &cmd_plugin_map, .run = client_map_run},
		{.command = &cmd_plugin_backups, .run = client_backups_run},
		{.command = NULL},
	};
	static const struct role role = {.commands = commands, .runners = runners};

	return role_main(&role, argc, argv);
}
