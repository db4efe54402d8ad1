/* SPDX-License-Identifier: Apache-2.0 */

/* What 'volume info' and 'snapshot info' share: the flags, the space that the object
 * occupies and where it is attached, and the order of work. */
#ifndef CAIRN_CLI_INFO_H
#define CAIRN_CLI_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/flags.h"
#include "pool/pool.h"

struct cairn_err;
struct cairn_json;

extern const struct cairn_flag cmd_info_flags[];

struct cmd_space {
	uint64_t allocated;
	struct pool_usage usage;
	uint64_t exclusive; /* with --used: what it alone holds */
};

/* `id` is that of a volume or a snapshot that is not deleted. */
int cmd_space_collect(struct pool *pool, const char *id, struct cmd_space *ret,
		      struct cairn_err *err);

void cmd_space_print_allocated(const struct cmd_space *space);
void cmd_space_print(const struct cmd_space *space);

/* The fields of an object; `deleted` ones have no usage. */
void cmd_space_json(struct cairn_json *json, const struct cmd_space *space, bool deleted);

/* The steps of an info command; `facts` is the command's own structure. */
struct cmd_info {
	int (*collect)(struct pool *pool, const char *name, void *facts, struct cairn_err *err);
	void (*print)(const void *facts);
	void (*json)(struct cairn_json *json, const void *facts); /* the object's fields */
};

/* Opens the pool, collects the facts and prints them as --output asks. */
int cmd_info_run(const struct cmd_info *info, const char *name, void *facts, struct cairn_err *err);

#endif
