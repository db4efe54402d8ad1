/* SPDX-License-Identifier: Apache-2.0 */

#include "cmd/tree.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/flags.h"
#include "base/mem.h"
#include "cmd/options.h"
#include "cmd/record.h"
#include "pool/pool.h"

static bool all;

static const struct cairn_flag flags[] = {
	{.name = "all",
	 .letter = 'a',
	 .kind = CAIRN_FLAG_BOOL,
	 .target = &all,
	 .help = "also deleted ones of which snapshots live on"},
	CAIRN_FLAG_END,
};

struct found {
	struct pool_volume *volumes;
	size_t n;
	size_t room;
};

static int collect(void *arg, const struct pool_volume *volume, struct cairn_err *err)
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

static int by_name(const void *a, const void *b)
{
	const struct pool_volume *left = a;
	const struct pool_volume *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : strcmp(left->id, right->id);
}

static int print(const struct found *found, struct cairn_err *err)
{
	struct cmd_listing listing;
	int rc = 0;
	int rc_end;

	cmd_listing_begin(&listing, "volumes", cmd_volume_columns, cmd_volume_columns_n);
	for (size_t i = 0; i < found->n && !rc; i++)
		rc = cmd_listing_volume(&listing, &found->volumes[i], err);
	rc_end = cmd_listing_end(&listing, rc ? NULL : err);
	return rc ? rc : rc_end;
}

static int run(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	struct found found = {0};
	int rc;

	(void)argc;
	(void)argv;
	rc = cmd_pool_open(CMD_READ, &pool, err);
	if (!rc)
		rc = pool_volume_list(pool, NULL, collect, &found, err);
	if (!rc) {
		if (found.n > 0)
			qsort(found.volumes, found.n, sizeof(*found.volumes), by_name);
		rc = print(&found, err);
	}
	free(found.volumes);
	return rc;
}

const struct command cmd_volume_list = {
	.name = "list",
	.summary = "list volumes, by name",
	.flags = flags,
	.has_output = true,
	.run = run,
};
