/* SPDX-License-Identifier: Apache-2.0 */

/* What a volume or a snapshot occupies and where it is attached, for 'info'. */
#ifndef CAIRN_CLI_SPACE_H
#define CAIRN_CLI_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;
struct cairn_json;

struct cmd_space {
	uint64_t allocated;
	struct pool_usage usage;
	bool alone;         /* what it alone holds was asked for, which may take long */
	uint64_t exclusive; /* this amount */
};

/* `id` is that of a volume or a snapshot that is not deleted. */
int cmd_space_collect(struct pool *pool, const char *id, bool alone, struct cmd_space *ret,
		      struct cairn_err *err);

void cmd_space_print_allocated(const struct cmd_space *space);
void cmd_space_print(const struct cmd_space *space);

/* The fields of an object; `deleted` ones have no usage. */
void cmd_space_json(struct cairn_json *json, const struct cmd_space *space, bool deleted);

#endif
