/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output_record.h"
#include "cli/pool_open.h"
#include "pool/pool.h"

static bool all;
static bool used;

static const struct cairn_flag volume_list_flags[] = {
	{.name = "all",
	 .letter = 'a',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &all,
	 .help = "also deleted ones of which snapshots live on"},
	CAIRN_FLAG_SWITCH("used", used, "also what a volume alone holds; may take long"),
	CAIRN_FLAG_END,
};

struct found {
	struct pool_volume *volumes;
	size_t n;
	size_t room;
};

static int volume_list_collect(void *arg, const struct pool_volume *volume, struct cairn_err *err)
{
	struct found *found = arg;

	if (volume->deleted && !all)
		return 0;
	if (found->n == found->room) {
		size_t room = found->room ? 2 * found->room : 64;
		void *more = cairn_realloc_array(found->volumes, room, sizeof(*found->volumes));

		if (!more)
			return cairn_err_nomem(err, "list of volumes");
		found->volumes = more;
		found->room = room;
	}
	found->volumes[found->n++] = *volume;
	return 0;
}

static int cmd_volume_list_by_name(const void *a, const void *b)
{
	const struct pool_volume *left = a;
	const struct pool_volume *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : strcmp(left->id, right->id);
}

/* Values that are measured for each volume, not stored in its record. */
struct state {
	struct pool_usage usage;
	bool known; /* its data is readable */
	uint64_t exclusive;
};

static int volume_list_look(struct pool *pool, const struct pool_attached *attached,
			    const struct pool_volume *volume, struct state *ret,
			    struct cairn_err *err)
{
	int rc = 0;

	*ret = (struct state){0};
	if (volume->deleted)
		return 0;
	/* If the data is not readable, show the rest of the record. */
	ret->known = pool_usage_get(pool, volume->id, attached, &ret->usage, NULL) == 0;
	if (ret->known && used)
		rc = pool_exclusive_bytes(pool, volume->id, &ret->exclusive, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* The last one is shown only with --used. */
static const struct cmd_column columns[] = {
	{.title = "VOLUME"},
	{.title = "SIZE", .right = true},
	{.title = "USED", .right = true},
	{.title = "DEVICE"},
	{.title = "MOUNTED"},
	{.title = "CREATED", .spare = 3},
	{.title = "ORIGIN", .spare = 2},
	{.title = "ID", .spare = 1},
	{.title = "ALONE", .right = true},
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

static int volume_list_add_row(struct cmd_listing *listing, const struct pool_volume *volume,
			       const struct state *state, struct cairn_err *err)
{
	char size[CAIRN_SIZE_TEXT_MAX];
	char blocks[CAIRN_SIZE_TEXT_MAX];
	char exclusive[CAIRN_SIZE_TEXT_MAX];
	char created[CMD_TIME_TEXT_MAX];
	const struct pool_usage *usage = &state->usage;
	const char *cells[] = {
		volume->name,
		cairn_format_size(volume->size, size),
		state->known ? cairn_format_size(usage->used_bytes, blocks) : "-",
		*usage->device ? usage->device : "-",
		*usage->mounted ? usage->mounted : "-",
		cmd_time_text(volume->created_ns, created),
		*volume->origin ? volume->origin : "-",
		volume->id,
		state->known ? cairn_format_size(state->exclusive, exclusive) : "-",
	};

	return cmd_table_add(&listing->table, cells, err);
}

static int print_one(struct cmd_listing *listing, const struct pool_volume *volume,
		     const struct state *state, struct cairn_err *err)
{
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		return volume_list_add_row(listing, volume, state, err);
	cmd_listing_record_begin(listing);
	cmd_json_volume_fields(&listing->json, volume);
	cmd_json_usage_fields(&listing->json, state->known ? &state->usage : NULL);
	if (used)
		cmd_json_field_u64(&listing->json, "exclusive_bytes", state->exclusive);
	cmd_listing_record_end(listing);
	return 0;
}

static int volume_list_print(struct pool *pool, const struct found *found, struct cairn_err *err)
{
	cairn_cleanup(pool_attached_freep) struct pool_attached *attached = NULL;
	struct cmd_listing listing;
	int rc = pool_attached_get(&attached, err);
	int rc_end;

	if (rc)
		return rc;
	cmd_listing_begin(&listing, "volumes", columns, used ? COLUMNS : COLUMNS - 1);
	for (size_t i = 0; i < found->n && !rc; i++) {
		struct state state;

		rc = volume_list_look(pool, attached, &found->volumes[i], &state, err);
		if (!rc)
			rc = print_one(&listing, &found->volumes[i], &state, err);
	}
	rc_end = cmd_listing_end(&listing, rc ? NULL : err);
	return rc ? rc : rc_end;
}

static int volume_list_run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct found found = {0};
	int rc;

	(void)argc;
	(void)argv;
	rc = cmd_pool_open(CMD_READ, &pool, err);
	if (!rc)
		rc = pool_volume_list(pool, NULL, volume_list_collect, &found, err);
	if (!rc) {
		if (found.n > 0)
			qsort(found.volumes, found.n, sizeof(*found.volumes),
			      cmd_volume_list_by_name);
		rc = volume_list_print(pool, &found, err);
	}
	free(found.volumes);
	return rc;
}

const struct command cmd_volume_list = {
	.name = "list",
	.alias = "ls",
	.summary = "list volumes, by name",
	.flags = volume_list_flags,
	.has_output = true,
	.run = volume_list_run,
};
