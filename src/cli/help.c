/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/help.h"

#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"

#define NAME_COLUMNS 14 /* width of a subcommand's name */
#define FLAG_COLUMNS 26 /* longer flags have their description on the next line */

/* Prints a flag and its value, such as "--size SIZE"; returns the columns that they took. */
static size_t print_flag(const struct cairn_flag *flag)
{
	size_t columns = 6 + 2 + strlen(flag->name);

	if (flag->letter)
		cmd_outf("  -%c, --%s", flag->letter, flag->name);
	else
		cmd_outf("      --%s", flag->name);
	if (flag->kind == CAIRN_FLAG_BOOL)
		return columns;
	cmd_out_text(" ");
	columns++;
	if (flag->kind != CAIRN_FLAG_CHOICE) {
		cmd_out_text(flag->value_name);
		return columns + strlen(flag->value_name);
	}
	for (int i = 0; flag->choices[i]; i++) {
		cmd_outf("%s%s", i ? "|" : "", flag->choices[i]);
		columns += (i != 0) + strlen(flag->choices[i]);
	}
	return columns;
}

static void print_flags(const char *title, const struct cairn_flag *flags)
{
	if (!flags)
		return;
	if (title)
		cmd_outf("\n%s:\n", title);
	for (; flags->name; flags++) {
		size_t columns;

		if (flags->hidden)
			continue;
		columns = print_flag(flags);
		if (columns > FLAG_COLUMNS) {
			cmd_out_text("\n");
			columns = 0;
		}
		cmd_out_repeat(' ', FLAG_COLUMNS + 2 - columns);
		cmd_outf("%s\n", flags->help);
	}
}

static void print_usage(const struct cmd_path *path)
{
	const struct command *command = cmd_path_end(path);
	char text[CMD_PATH_TEXT_MAX];

	cmd_outf("Usage: %s", cmd_path_text(path, text));
	if (command->subcommands) {
		cmd_out_text(" COMMAND [OPTION]...\n");
		return;
	}
	if (!command->raw)
		cmd_out_text(" [OPTION]...");
	for (const struct cmd_arg *arg = command->args; arg && arg->name; arg++)
		cmd_outf(" %s%s%s%s", arg->optional ? "[" : "", arg->name, arg->optional ? "]" : "",
			 arg->repeated ? "..." : "");
	cmd_out_text("\n");
}

static void print_subcommands(const struct command *command)
{
	cmd_out_text("\nCommands:\n");
	for (const struct command *const *sub = command->subcommands; *sub; sub++) {
		if ((*sub)->hidden)
			continue;
		cmd_outf("  %s", (*sub)->name);
		cmd_out_repeat(' ', NAME_COLUMNS - strlen((*sub)->name));
		cmd_outf("%s\n", (*sub)->summary);
	}
}

/* Prints the global flags, or where to find them, and where to read more. */
static void print_more(const struct cmd_path *path)
{
	const struct command *command = cmd_path_end(path);
	char text[CMD_PATH_TEXT_MAX];

	if (path->n == 1)
		print_flags("Options of every command", cmd_global_flags);
	cmd_out_text("\n");
	if (command->subcommands)
		cmd_outf("Run '%s COMMAND --help' for more about a command.\n",
			 cmd_path_text(path, text));
	if (path->n > 1)
		cmd_outf("'%s --help' lists the options of every command.\n", path->at[0]->name);
	if (path->n == 1 || command == &cmd_help)
		cmd_outf("The manual page is %s(1).\n",
			 path->at[0]->manual ? path->at[0]->manual : path->at[0]->name);
	else if (path->at[1]->manual)
		cmd_outf("The manual page is %s(1).\n", path->at[1]->manual);
	else
		cmd_outf("The manual page is cairn-%s(1).\n", path->at[1]->name);
}

void cmd_help_print(const struct cmd_path *path)
{
	const struct command *command = cmd_path_end(path);
	char text[CMD_PATH_TEXT_MAX];

	cmd_outf("%s: %s\n\n", cmd_path_text(path, text), command->summary);
	print_usage(path);
	if (command->alias)
		cmd_outf("Alias: %s\n", command->alias);
	if (command->about)
		cmd_outf("\n%s", command->about);
	if (command->subcommands)
		print_subcommands(command);
	if (command->flags || command->has_output)
		cmd_out_text("\nOptions:\n");
	print_flags(NULL, command->flags);
	if (command->has_output)
		print_flags(NULL, cmd_output_flags);
	print_more(path);
}

static int help_run(int argc, char **argv, struct cairn_err *err)
{
	struct cmd_path path = {.at = {cmd_root()}, .n = 1};

	for (int i = 0; i < argc; i++) {
		int rc = cmd_path_descend(&path, argv[i], err);

		if (rc)
			return rc;
	}
	cmd_help_print(&path);
	return 0;
}

const struct command cmd_help = {
	.name = "help",
	.summary = "show help for a command",
	.args = (const struct cmd_arg[]){{.name = "COMMAND",
					  .kind = CMD_ARG_COMMAND,
					  .optional = true,
					  .repeated = true},
					 CMD_ARG_END},
	.run = help_run,
};
