/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/command.h"
#include "cli/commands.h"

int main(int argc, char **argv)
{
	return command_main(&cmd_cairn, argc, argv);
}
