/* SPDX-License-Identifier: Apache-2.0 */

/* The command tree.
 *
 * A command is a constant: its name, its texts, its arguments, its flags and
 * either a function to run or subcommands. Dispatch, --help on every level,
 * `cairn help`, completion and the check of the man pages all read this tree,
 * so they cannot disagree.
 *
 * Flags write to variables at file scope: a process runs one command, once.
 *
 * The tree is in the program `cairn`. A heavy role has a program of its own with the
 * same constants and a tree of only its commands (roles/role.h); `cairn` parses and
 * checks the command line, which it can do without the role's libraries, and then
 * executes that program with the same words (cli/program.h).
 */
#ifndef CAIRN_CLI_COMMAND_H
#define CAIRN_CLI_COMMAND_H

#include <stdbool.h>

struct cairn_err;
struct cairn_flag;

/* What an argument names; completion offers accordingly. */
enum cmd_arg_kind {
	CMD_ARG_TEXT,
	CMD_ARG_DIR,
	CMD_ARG_COMMAND,
	CMD_ARG_VOLUME,
	CMD_ARG_SNAPSHOT,
	CMD_ARG_NEW_SNAPSHOT, /* VOLUME@ of an existing volume, the rest is new */
	CMD_ARG_SOURCE,       /* a volume or a snapshot */
};

struct cmd_arg {
	const char *name; /* NULL ends a list */
	enum cmd_arg_kind kind;
	bool optional;
	bool repeated; /* the last of a list only */
};

#define CMD_ARG_END          \
	{                    \
		.name = NULL \
	}

/* A command line that cannot be understood; becomes exit status 2. Made by
 * cmd_usage(), and no gRPC code. */
#define CMD_USAGE (-1000)

struct command {
	const char *name;
	const char *alias;              /* another name, or NULL */
	const char *summary;            /* one line, lower case, no full stop */
	const char *about;              /* what --help says beyond that; lines end in \n */
	const struct cmd_arg *args;     /* NULL: none */
	const struct cairn_flag *flags; /* NULL: none */
	bool has_output;                /* --output applies */
	bool raw;                       /* words after the name are not parsed */
	bool go_flags;                  /* stands in for a Go program: CAIRN_FLAGS_GO */
	bool hidden;
	/* Completes the options from the arguments and refuses what contradicts; NULL: nothing
	 * to do. Called before the command runs and before its program is executed. */
	int (*check)(int argc, char **argv, struct cairn_err *err);
	int (*run)(int argc, char **argv, struct cairn_err *err);
	const char *manual;  /* its manual page, if not cairn-NAME; or NULL */
	const char *program; /* of the role that runs this and its subcommands; or NULL */
	const struct command *const *subcommands; /* NULL-terminated */
};

/* What runs a command, or all of its subcommands, in this program. */
struct command_runner {
	const struct command *command; /* NULL ends a list */
	int (*run)(struct cairn_err *err);
};

struct command_program {
	const struct command *root;
	const struct command_runner *runners; /* of commands without `run` */
	/* Adds the nearest name to "not found"; NULL: the arguments name nothing of a pool. */
	void (*suggest)(const struct command *command, int argc, char **argv,
			struct cairn_err *err);
};

#define CMD_DEPTH_MAX 4 /* "cairn pool create" is 3 */

/* The way from the root to a command. */
struct cmd_path {
	const struct command *at[CMD_DEPTH_MAX];
	unsigned n;
};

/* The last command of a path. */
const struct command *cmd_path_end(const struct cmd_path *path);

/* "cairn pool create" in `out`. Returns `out`. */
#define CMD_PATH_TEXT_MAX 64
const char *cmd_path_text(const struct cmd_path *path, char out[CMD_PATH_TEXT_MAX]);

/* Appends the subcommand of that name to the path.
 *
 * CMD_USAGE  there is none; the text suggests the nearest name
 */
int cmd_path_descend(struct cmd_path *path, const char *name, struct cairn_err *err);

/* Parses, runs, reports an error and returns the exit status. */
int cmd_command_main(const struct command_program *program, int argc, char **argv);

/* The tree that is being run. */
const struct command *cmd_root(void);

/* The command line as it was given: parsing moves the words of argv. */
char *const *cmd_words(void);

/* 0, 2 for usage, the number of a gRPC code, or 128 + signal when that asked
 * for the end. */
int cmd_exit_status(int code);

/* Fails as a usage error. */
__attribute__((format(printf, 2, 3))) int cmd_usage(struct cairn_err *err, const char *fmt, ...);

#endif
