/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/cmd_verify.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/plugin.h"
#include "cli/suggest.h"

int main(int argc, char **argv)
{
	static const struct command_runner runners[] = {
		{.command = &cmd_verify_command, .run = cmd_verify_run},
		{.command = NULL},
	};
	static const struct command_program program = {
		.root = &cmd_cairn, .runners = runners, .suggest = cmd_suggest};
	static const struct command_program plugin = {.root = &cmd_plugin, .runners = runners};
	bool is_plugin = argc > 0 && cmd_is_plugin(argv[0]);

	return cmd_command_main(is_plugin ? &plugin : &program, argc, argv);
}
