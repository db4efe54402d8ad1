/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/command.h"
#include "cmd/tree.h"

int main(int argc, char **argv)
{
	return command_main(&cmd_cairn, argc, argv);
}
