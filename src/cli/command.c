/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/command.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/program.h"
#include "cli/progress.h"

#define EXIT_USAGE  2
#define EXIT_SIGNAL 128 /* plus the number of the signal */

static const struct command_program *running;
static char **words; /* argv as given; NULL-terminated */

const struct command *cmd_root(void)
{
	return running->root;
}

char *const *cmd_words(void)
{
	return words;
}

int cmd_usage(struct cairn_err *err, const char *fmt, ...)
{
	char text[CAIRN_ERR_TEXT_MAX]; /* the arguments may contain err->msg */
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return cairn_err_set(err, CMD_USAGE, "%s", text);
}

int cmd_exit_status(int code)
{
	if (code == CMD_USAGE)
		return EXIT_USAGE;
	if (code == CAIRN_CANCELLED && cmd_interrupted())
		return EXIT_SIGNAL + cmd_interrupted();
	return -code;
}

const struct command *cmd_path_end(const struct cmd_path *path)
{
	return path->at[path->n - 1];
}

const char *cmd_path_text(const struct cmd_path *path, char out[CMD_PATH_TEXT_MAX])
{
	size_t len = 0;

	out[0] = '\0';
	for (unsigned i = 0; i < path->n && len < CMD_PATH_TEXT_MAX; i++)
		len += (size_t)snprintf(out + len, CMD_PATH_TEXT_MAX - len, "%s%s", i ? " " : "",
					path->at[i]->name);
	return out;
}

/* The visible subcommand whose name is nearest to what was typed, or NULL. */
static const struct command *command_nearest(const struct command *command, const char *typed)
{
	const struct command *best = NULL;
	size_t least = cairn_text_near(typed) + 1;

	for (const struct command *const *sub = command->subcommands; *sub; sub++) {
		size_t distance = cairn_text_distance((*sub)->name, typed);

		if (!(*sub)->hidden && distance < least) {
			least = distance;
			best = *sub;
		}
	}
	return best;
}

int cmd_path_descend(struct cmd_path *path, const char *name, struct cairn_err *err)
{
	const struct command *command = cmd_path_end(path);
	const struct command *guess;
	char text[CMD_PATH_TEXT_MAX];

	cmd_path_text(path, text);
	for (const struct command *const *sub = command->subcommands; sub && *sub; sub++) {
		bool match = strcmp((*sub)->name, name) == 0 ||
			     ((*sub)->alias && strcmp((*sub)->alias, name) == 0);

		if (match && path->n < CMD_DEPTH_MAX) {
			path->at[path->n++] = *sub;
			return 0;
		}
	}
	if (!command->subcommands)
		return cmd_usage(err, "'%s' has no subcommands", text);
	guess = command_nearest(command, name);
	if (guess)
		return cmd_usage(err, "'%s' is not a command of '%s'; did you mean '%s %s'?", name,
				 text, text, guess->name);
	return cmd_usage(err, "'%s' is not a command of '%s'; see '%s --help'", name, text, text);
}

/* Follows the words to the command they name. */
static int find_command(struct cmd_path *path, int *argc, char ***argv, struct cairn_err *err)
{
	const struct cairn_flag *const tables[] = {cmd_global_flags, cmd_output_flags, NULL};

	while (cmd_path_end(path)->subcommands) {
		char text[CMD_PATH_TEXT_MAX];
		int rc = cairn_flags_parse(tables, *argc, *argv, CAIRN_FLAGS_STOP, argc, err);

		if (rc || cmd_options.help || cmd_options.version)
			return rc ? cmd_usage(err, "%s", err->msg) : 0;
		cmd_path_text(path, text);
		if (*argc == 0 && path->n == 1) {
			cmd_options.help = true;
			return 0;
		}
		if (*argc == 0)
			return cmd_usage(err, "a command is missing; see '%s --help'", text);
		rc = cmd_path_descend(path, (*argv)[0], err);
		if (rc)
			return rc;
		(*argc)--;
		(*argv)++;
	}
	return 0;
}

/* Checks the number of arguments. */
static int command_check_arguments(const struct cmd_path *path, int argc, char **argv,
				   struct cairn_err *err)
{
	const struct cmd_arg *arg = cmd_path_end(path)->args;
	char text[CMD_PATH_TEXT_MAX];
	int needed = 0;
	int most = 0;

	cmd_path_text(path, text);
	for (; arg && arg->name; arg++) {
		needed += !arg->optional;
		most = arg->repeated ? argc : most + 1;
		if (needed > argc)
			return cmd_usage(err, "%s is missing; see '%s --help'", arg->name, text);
	}
	if (argc > most)
		return cmd_usage(err, "'%s' is one argument too many; see '%s --help'", argv[most],
				 text);
	return 0;
}

static int parse_command(const struct cmd_path *path, int *argc, char **argv, struct cairn_err *err)
{
	const struct command *command = cmd_path_end(path);
	const struct cairn_flag *const tables[] = {cmd_global_flags, cmd_output_flags,
						   command->flags, NULL};
	char text[CMD_PATH_TEXT_MAX];

	if (command->raw || command->subcommands)
		return 0;
	cmd_path_text(path, text);
	if (cairn_flags_parse(tables, *argc, argv, command->go_flags ? CAIRN_FLAGS_GO : 0, argc,
			      err))
		return cmd_usage(err, "%s; see '%s --help'", err->msg, text);
	if (cmd_options.help || cmd_options.version)
		return 0;
	if (cmd_options.output_given && !command->has_output)
		return cmd_usage(err, "--output does not apply to '%s'", text);
	return command_check_arguments(path, *argc, argv, err);
}

static const struct command_runner *find_runner(const struct command *command)
{
	const struct command_runner *runner = running->runners;

	while (runner && runner->command && runner->command != command)
		runner++;
	return runner && runner->command ? runner : NULL;
}

/* Runs a command. In a role's program, a runner belongs to the command or to its group; in
 * `cairn`, the command or its group names the program to execute. */
static int command_run_command(const struct cmd_path *path, int argc, char **argv,
			       struct cairn_err *err)
{
	const struct command *command = cmd_path_end(path);

	if (command->run)
		return command->run(argc, argv, err);
	for (unsigned i = path->n; i-- > 0;) {
		const struct command_runner *runner = find_runner(path->at[i]);

		if (runner)
			return runner->run(err);
		if (path->at[i]->program)
			return cmd_program_exec(path->at[i]->program, err);
	}
	return cairn_err_set(err, CAIRN_INTERNAL, "the command '%s' is not in this program",
			     command->name);
}

static int command_run(struct cmd_path *path, int argc, char **argv, struct cairn_err *err)
{
	const struct command *command;
	int rc = find_command(path, &argc, &argv, err);

	if (!rc)
		rc = parse_command(path, &argc, argv, err);
	if (rc)
		return rc;
	if (cmd_options.version) {
		cmd_outf("cairn %s\n", CAIRN_VERSION);
		return 0;
	}
	if (cmd_options.help) {
		cmd_help_print(path);
		return 0;
	}
	cairn_log_setup((enum cairn_log_level)cmd_options.log_level,
			(enum cairn_log_format)cmd_options.log_format);
	command = cmd_path_end(path);
	rc = command->check ? command->check(argc, argv, err) : 0;
	if (!rc)
		rc = command_run_command(path, argc, argv, err);
	if (rc == CAIRN_NOT_FOUND && running->suggest)
		running->suggest(command, argc, argv, err);
	return rc;
}

/* The value of an --output flag at `arg`, or NULL; `next` is the word after it. */
static const char *output_value(const char *arg, const char *next)
{
	if (strcmp(arg, "-o") == 0 || strcmp(arg, "--output") == 0)
		return next;
	if (strncmp(arg, "--output=", 9) == 0)
		return arg + 9;
	return strncmp(arg, "-o", 2) == 0 ? arg + 2 : NULL;
}

/* Looks for --output before the flags are parsed, so that errors in the flags are printed
 * as JSON too. argv ends with NULL. */
static void find_output(int argc, char **argv)
{
	char **word = argc > 0 ? argv + 1 : argv;

	for (; *word && !cmd_options.output_given && strcmp(*word, "--") != 0; word++) {
		const char *value = output_value(*word, word[1]);

		if (value && strcmp(value, "json") == 0)
			cmd_options.output = CMD_OUTPUT_JSON;
		else if (value && strcmp(value, "ndjson") == 0)
			cmd_options.output = CMD_OUTPUT_NDJSON;
	}
}

int cmd_command_main(const struct command_program *program, int argc, char **argv)
{
	struct cmd_path path = {.at = {program->root}, .n = 1};
	struct cairn_err err = {0};
	int rc;
	int rc_out;

	running = program;
	words = cairn_calloc((size_t)argc + 1, sizeof(*words));
	if (!words) {
		(void)cairn_err_nomem(&err, "command line");
		cmd_report_error(&err);
		return cmd_exit_status(err.code);
	}
	memcpy(words, argv, (size_t)argc * sizeof(*words));
	/* Report a closed pipe as an error instead of dying of SIGPIPE. */
	signal(SIGPIPE, SIG_IGN);
	rc = command_run(&path, argc > 0 ? argc - 1 : 0, argv + (argc > 0), &err);
	rc_out = cmd_out_finish(rc ? NULL : &err);
	if (!rc)
		rc = rc_out;
	if (rc) {
		find_output(argc, argv);
		cmd_report_error(&err);
	}
	free(words);
	words = NULL;
	return cmd_exit_status(rc);
}
