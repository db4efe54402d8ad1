/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

struct guess {
	const char *typed;
	size_t least; /* distance of `best` */
	char best[CMD_SNAPSHOT_TEXT_MAX];
};

static void suggest_consider(struct guess *guess, const char *name)
{
	size_t distance = cairn_text_distance(name, guess->typed);

	if (distance >= guess->least || distance == 0)
		return;
	guess->least = distance;
	snprintf(guess->best, sizeof(guess->best), "%s", name);
}

static int consider_volume(void *arg, const struct pool_volume *volume, struct cairn_err *err)
{
	(void)err;
	if (!volume->deleted)
		suggest_consider(arg, volume->name);
	return 0;
}

static int consider_snapshot(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *err)
{
	char name[CMD_SNAPSHOT_TEXT_MAX];

	(void)err;
	suggest_consider(arg, cmd_snapshot_text(snapshot, name));
	return 0;
}

static void look_in_pool(struct guess *guess, enum cmd_arg_kind kind)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct pool_snapshot_list_spec all = {0};

	if (cmd_pool_open(CMD_READ, &pool, NULL))
		return;
	if (kind != CMD_ARG_SNAPSHOT)
		(void)pool_volume_list(pool, NULL, consider_volume, guess, NULL);
	if (kind == CMD_ARG_SNAPSHOT || kind == CMD_ARG_SOURCE)
		(void)pool_snapshot_list(pool, &all, consider_snapshot, guess, NULL);
}

/* Of "VOLUME@NEW" only the volume must exist, so only its name is compared. */
static char *name_of(enum cmd_arg_kind kind, const char *typed)
{
	const char *at = kind == CMD_ARG_NEW_SNAPSHOT ? strrchr(typed, '@') : NULL;

	return at ? cairn_strndup(typed, (size_t)(at - typed)) : cairn_strdup(typed);
}

static bool suggest_for(enum cmd_arg_kind kind, const char *typed, struct cairn_err *err)
{
	cairn_auto_free char *name = name_of(kind, typed);
	cairn_auto_free char *quoted = name ? cairn_printf("'%s'", name) : NULL;
	struct guess guess = {.typed = name};
	size_t used = strlen(err->msg);

	if (!quoted || !strstr(err->msg, quoted))
		return false;
	guess.least = cairn_text_near(name) + 1;
	look_in_pool(&guess, kind);
	if (guess.best[0])
		snprintf(err->msg + used, sizeof(err->msg) - used, "; did you mean '%s'?",
			 guess.best);
	return guess.best[0] != '\0';
}

static bool suggest_is_of_pool(enum cmd_arg_kind kind)
{
	return kind == CMD_ARG_VOLUME || kind == CMD_ARG_SNAPSHOT || kind == CMD_ARG_NEW_SNAPSHOT ||
	       kind == CMD_ARG_SOURCE;
}

void cmd_suggest(const struct command *command, int argc, char **argv, struct cairn_err *err)
{
	const struct cmd_arg *arg = command->args;

	for (int i = 0; err->code == CAIRN_NOT_FOUND && arg && arg->name && i < argc; i++) {
		if (suggest_is_of_pool(arg->kind) && suggest_for(arg->kind, argv[i], err))
			return;
		arg += !arg->repeated;
	}
}
