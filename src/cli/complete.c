/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn complete N WORD...`: prints candidates for word N of a command line, one per line,
 * for the shell's completion. A line ":dirs" or ":files" tells the shell to add directories
 * or files. Errors are not printed, because they would disturb the line that the user is
 * editing. */

#include "cli/commands.h"

#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

/* Directives of cobra, whose shell code kubectl's completion is. */
#define COBRA_FILES       ":0"
#define COBRA_NO_FILES    ":4"
#define COBRA_DIRECTORIES ":16"

/* For kubectl: the directive of the last line. NULL: for our own shell code. */
static const char *cobra;

struct words {
	char **word;
	int current; /* index of the word to complete */
	struct cmd_path path;
	int arguments;                    /* number of arguments before the current word */
	const struct cairn_flag *pending; /* the flag whose value the current word is */
	bool only_arguments;              /* "--" was seen */
};

static void complete_offer(const char *prefix, const char *lead, const char *text, const char *tail)
{
	size_t skip = strlen(lead);

	if (strncmp(prefix, lead, skip) != 0 ||
	    strncmp(prefix + skip, text, strlen(prefix + skip)) != 0)
		return;
	cmd_outf("%s%s%s\n", lead, text, tail);
}

static const struct cairn_flag *find_flag(const struct words *words, const char *name)
{
	const struct cairn_flag *const tables[] = {cmd_global_flags, cmd_output_flags,
						   cmd_path_end(&words->path)->flags, NULL};

	return cairn_flags_find(tables, name);
}

/* Records a flag before the current word; true if it takes the next word as its value. */
static bool take_flag(struct words *words, const char *word)
{
	const struct cairn_flag *flag;

	if (strcmp(word, "-o") == 0)
		word = "--output";
	flag = word[1] == '-' ? find_flag(words, word + 2) : NULL;
	if (strncmp(word, "--pool=", 7) == 0)
		cmd_options.pool = word + 7;
	words->pending = flag && flag->kind != CAIRN_FLAG_BOOL ? flag : NULL;
	return words->pending != NULL;
}

/* Parses the words before the current one. */
static void complete_follow(struct words *words)
{
	for (int i = 1; i < words->current; i++) {
		char *word = words->word[i];

		words->pending = NULL;
		if (words->only_arguments || word[0] != '-' || !word[1]) {
			if (!cmd_path_end(&words->path)->subcommands ||
			    cmd_path_descend(&words->path, word, &(struct cairn_err){0}))
				words->arguments++;
		} else if (strcmp(word, "--") == 0) {
			words->only_arguments = true;
		} else if (take_flag(words, word) && i + 1 < words->current) {
			if (strcmp(words->pending->name, "pool") == 0)
				cmd_options.pool = words->word[i + 1];
			i++;
			words->pending = NULL;
		}
	}
}

static int offer_volume(void *arg, const struct pool_volume *volume, struct cairn_err *err)
{
	const char *const *texts = arg;

	(void)err;
	if (!volume->deleted)
		complete_offer(texts[0], texts[1], volume->name, texts[2]);
	return 0;
}

static int offer_snapshot(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *err)
{
	const char *const *texts = arg;
	char name[CMD_SNAPSHOT_TEXT_MAX];

	(void)err;
	complete_offer(texts[0], texts[1], cmd_snapshot_text(snapshot, name), "");
	return 0;
}

/* Lets the shell offer its files or directories. */
static void offer_files(bool directories)
{
	if (cobra)
		cobra = directories ? COBRA_DIRECTORIES : COBRA_FILES;
	else
		cmd_out_text(directories ? ":dirs\n" : ":files\n");
}

static void offer_from_pool(enum cmd_arg_kind kind, const char *prefix, const char *lead)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_snapshot_list_spec all = {.with_deleted = true};
	const char *texts[] = {prefix, lead, kind == CMD_ARG_NEW_SNAPSHOT ? "@" : ""};

	if (cmd_pool_open(CMD_READ, &pool, NULL))
		return;
	if (kind != CMD_ARG_SNAPSHOT)
		(void)pool_volume_list(pool, NULL, offer_volume, texts, NULL);
	if (kind == CMD_ARG_SNAPSHOT || kind == CMD_ARG_SOURCE)
		(void)pool_snapshot_list(pool, &all, offer_snapshot, texts, NULL);
}

static void offer_subcommands(const struct command *command, const char *prefix)
{
	for (const struct command *const *sub = command->subcommands; sub && *sub; sub++)
		if (!(*sub)->hidden)
			complete_offer(prefix, "", (*sub)->name, "");
}

static void offer_kind(enum cmd_arg_kind kind, const char *prefix, const char *lead)
{
	switch (kind) {
	case CMD_ARG_TEXT:
		break;
	case CMD_ARG_DIR:
		offer_files(true);
		break;
	case CMD_ARG_COMMAND:
		break; /* offer_commands() */
	case CMD_ARG_VOLUME:
	case CMD_ARG_SNAPSHOT:
	case CMD_ARG_NEW_SNAPSHOT:
	case CMD_ARG_SOURCE:
		offer_from_pool(kind, prefix, lead);
		break;
	}
}

/* `lead` is "--name=" if the value is in the same word. */
static void offer_value(const struct cairn_flag *flag, const char *prefix, const char *lead)
{
	if (flag->kind == CAIRN_FLAG_CHOICE)
		for (int i = 0; flag->choices[i]; i++)
			complete_offer(prefix, lead, flag->choices[i], "");
	else if (flag->kind == CAIRN_FLAG_STRING && strcmp(flag->value_name, "DIR") == 0)
		offer_kind(CMD_ARG_DIR, prefix, lead);
	else if (flag->kind == CAIRN_FLAG_STRING && strcmp(flag->value_name, "SOURCE") == 0)
		offer_kind(CMD_ARG_SOURCE, prefix, lead);
	else if (flag->kind == CAIRN_FLAG_STRING && strcmp(flag->value_name, "FILE") == 0)
		offer_files(false);
	else if (flag->kind == CAIRN_FLAG_STRING &&
		 strcmp(flag->value_name, "FILE|DEVICE|VOLUME") == 0) {
		offer_kind(CMD_ARG_VOLUME, prefix, lead);
		offer_files(false);
	}
}

static void offer_flags(const struct cairn_flag *flags, const char *prefix)
{
	for (; flags && flags->name; flags++)
		if (!flags->hidden)
			complete_offer(prefix, "--", flags->name, "");
}

static void offer_option(const struct words *words, const char *prefix)
{
	const struct command *command = cmd_path_end(&words->path);
	const char *equals = strchr(prefix, '=');
	char lead[64];

	if (!equals) {
		prefix = strcmp(prefix, "-") == 0 ? "--" : prefix;
		offer_flags(command->flags, prefix);
		if (command->has_output)
			offer_flags(cmd_output_flags, prefix);
		offer_flags(cmd_global_flags, prefix);
		return;
	}
	if ((size_t)(equals - prefix) + 1 < sizeof(lead) && prefix[1] == '-') {
		const struct cairn_flag *flag;

		memcpy(lead, prefix, (size_t)(equals - prefix));
		lead[equals - prefix] = '\0';
		flag = find_flag(words, lead + 2);
		lead[equals - prefix] = '=';
		lead[equals - prefix + 1] = '\0';
		if (flag && flag->kind != CAIRN_FLAG_BOOL)
			offer_value(flag, prefix, lead);
	}
}

/* `help` takes the words of a command as arguments. */
static void offer_commands(const struct words *words, const char *prefix)
{
	struct cmd_path path = {.at = {cmd_root()}, .n = 1};

	for (int i = words->current - words->arguments; i < words->current; i++)
		if (cmd_path_descend(&path, words->word[i], &(struct cairn_err){0}))
			return;
	offer_subcommands(cmd_path_end(&path), prefix);
}

static void offer_argument(const struct words *words, const char *prefix)
{
	const struct command *command = cmd_path_end(&words->path);
	const struct cmd_arg *arg = command->args;
	int skip = words->arguments;

	if (command->subcommands) {
		if (words->arguments == 0)
			offer_subcommands(command, prefix);
		return;
	}
	for (; arg && arg->name && skip > 0 && !arg->repeated; skip--)
		arg++;
	if (arg && arg->name && arg->kind == CMD_ARG_COMMAND)
		offer_commands(words, prefix);
	else if (arg && arg->name)
		offer_kind(arg->kind, prefix, "");
}

/* Offers candidates for the word at `current`; the word before the first is the program. */
static void complete_word(char **word, int current, const char *prefix)
{
	struct words words = {
		.word = word, .current = current, .path = {.at = {cmd_root()}, .n = 1}};

	complete_follow(&words);
	if (words.pending)
		offer_value(words.pending, prefix, "");
	else if (prefix[0] == '-' && !words.only_arguments)
		offer_option(&words, prefix);
	else
		offer_argument(&words, prefix);
}

static int complete_run(int argc, char **argv, struct cairn_err *err)
{
	uint64_t current;

	if (argc < 1 || cairn_parse_u64(argv[0], &current, NULL) || current < 1 ||
	    current > (uint64_t)argc - 1)
		return cmd_usage(err, "complete needs the index of a word, and the words");
	complete_word(argv + 1, (int)current, (int)current < argc - 1 ? argv[1 + current] : "");
	return 0;
}

const struct command cmd_complete = {
	.name = "complete",
	.summary = "candidates for the shell's completion",
	.raw = true,
	.hidden = true,
	.run = complete_run,
};

/* `kubectl cairn __complete WORD...`: the same for kubectl, which completes the last word. The last
 * line is cobra's directive to the shell. */
static int complete_plugin_run(int argc, char **argv, struct cairn_err *err)
{
	(void)err;
	cobra = COBRA_NO_FILES;
	if (argc > 0)
		complete_word(argv - 1, argc, argv[argc - 1]);
	cmd_outf("%s\n", cobra);
	return 0;
}

const struct command cmd_plugin_complete = {
	.name = "__complete",
	.summary = "candidates for kubectl's completion",
	.raw = true,
	.hidden = true,
	.run = complete_plugin_run,
};
