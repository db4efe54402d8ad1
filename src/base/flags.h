/* SPDX-License-Identifier: Apache-2.0 */

/* Command-line flags, GNU style.
 *
 * A command describes its flags in a table; parsing, --help, completion and
 * the check of the man pages all read that table, so they cannot disagree.
 * "--name value", "--name=value", "-n value", "-nvalue", "--" and "--no-name"
 * for booleans are understood; flags and arguments may be mixed. A long name
 * must be written out: an abbreviation that works today could be ambiguous
 * tomorrow.
 */
#ifndef CAIRN_BASE_FLAGS_H
#define CAIRN_BASE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;

enum cairn_flag_kind {
	CAIRN_FLAG_BOOL,     /* bool *; takes no value */
	CAIRN_FLAG_STRING,   /* const char ** */
	CAIRN_FLAG_U64,      /* uint64_t * */
	CAIRN_FLAG_I64,      /* int64_t * */
	CAIRN_FLAG_SIZE,     /* uint64_t *, bytes: 8G */
	CAIRN_FLAG_DURATION, /* uint64_t *, milliseconds: 30s; "none" is UINT64_MAX */
	CAIRN_FLAG_CHOICE,   /* int *, the index into `choices` */
	CAIRN_FLAG_STRINGS,  /* struct cairn_strings *; each use adds one */
};

#define CAIRN_STRINGS_MAX 64U /* uses of one flag */

/* Borrowed from argv. */
struct cairn_strings {
	const char *at[CAIRN_STRINGS_MAX];
	size_t n;
};

struct cairn_flag {
	const char *name; /* without dashes; NULL ends a table */
	char letter;      /* 0 for none */
	enum cairn_flag_kind kind;
	void *target;
	const char *value_name; /* what --help calls the value, such as "DIR" */
	const char *help;       /* one line without a full stop; includes the default */
	const char *const *choices;
	bool hidden;
	bool *given; /* set when the flag was given; may be NULL */
};

#define CAIRN_FLAG_END       \
	{                    \
		.name = NULL \
	}

/* Entries of a table: a flag with a value of a kind (STRING, U64, …), and one without. */
#define CAIRN_FLAG_VALUE(kind_, name_, target_, value_, help_)                     \
	{                                                                          \
		.name = (name_), .kind = CAIRN_FLAG_##kind_, .target = &(target_), \
		.value_name = (value_), .help = (help_)                            \
	}
#define CAIRN_FLAG_SWITCH(name_, target_, help_)                                                \
	{                                                                                       \
		.name = (name_), .kind = CAIRN_FLAG_BOOL, .target = &(target_), .help = (help_) \
	}

/* Modes of cairn_flags_parse(). */
enum cairn_flags_how {
	/* Parsing ends at the first argument, so that a command can find its subcommand. */
	CAIRN_FLAGS_STOP = 1,
	/* Also accepts the syntax of Go's flag package, for a command that replaces a Go program:
	 * one dash before a long name ("-port=1", "-v 4"), and a value for a boolean
	 * ("--flag=false"). */
	CAIRN_FLAGS_GO = 2,
};

/* Parses argv[0..argc) against the tables (NULL-terminated list of tables). Arguments that
 * are not flags are moved, in order, to the front of argv and counted in *ret_argc. `how`
 * is 0 or of enum cairn_flags_how. Strings are borrowed from argv.
 *
 * CAIRN_INVALID  unknown flag, missing or bad value; the text says which
 */
int cairn_flags_parse(const struct cairn_flag *const tables[], int argc, char **argv, unsigned how,
		      int *ret_argc, struct cairn_err *err);

/* The flag of that long name in the tables, or NULL. */
const struct cairn_flag *cairn_flags_find(const struct cairn_flag *const tables[],
					  const char *name);

#endif
