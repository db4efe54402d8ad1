/* SPDX-License-Identifier: Apache-2.0 */

/* Extents of a volume as a table, as the array `block_metadata` of a JSON document, or as
 * lines of JSON. Nothing is collected, so memory does not depend on their number. */
#ifndef CAIRN_CLI_EXTENT_LIST_H
#define CAIRN_CLI_EXTENT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_extent;

struct cmd_extent_list {
	uint64_t capacity; /* of the volume */
	size_t columns;    /* of an offset in the table */
	bool knows_zeros;  /* the extents say which of them became zero */
	uint64_t extents;
	uint64_t bytes;
	uint64_t zero_bytes;
	uint64_t end; /* of the last extent */
	bool more;    /* the caller ended the list early, which the end then says */
};

/* Prints the head of a table. The head of a JSON document, up to the opening bracket of the
 * array, is the caller's. */
void cmd_extent_list_begin(struct cmd_extent_list *list, uint64_t capacity, bool knows_zeros);

void cmd_extent_list_add(struct cmd_extent_list *list, const struct block_extent *extent);

/* Prints the totals or ends the JSON document; `what` the extents are: "changed". */
void cmd_extent_list_end(const struct cmd_extent_list *list, const char *what);

#endif
