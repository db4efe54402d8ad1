/* SPDX-License-Identifier: Apache-2.0 */

/* A list of changed extents in a file, an extent a line, in any order.
 *
 *   {"byte_offset":8192,"size_bytes":4096}
 *
 * The list is believed: what is missing in it is missing in the backup. So a list that was
 * cut short, wherever, must not pass for a short one, and it must say where it ends:
 *   - a document as `cairn delta --output json` writes it ends with the line ]}
 *   - lines without a document around them end with the line {"end":true}
 * Empty lines are refused. So is a document that says of itself that it is a part, of
 * another size, or that it lists what is allocated: what became a hole is not in that.
 */
#ifndef CAIRN_BACKUP_CHANGE_LIST_H
#define CAIRN_BACKUP_CHANGE_LIST_H

#include <stdint.h>
#include <stdio.h>

struct block_sink;
struct cairn_err;

/* Stops lines that never end. */
#define CHANGE_LIST_LINE_MAX 4096U

/* `size` is that of the volume. Extents are given to the sink before the end was seen: on
 * failure it has had some of them.
 *
 * CAIRN_INVALID       it is no such list, or one of another volume; the text says which line
 * CAIRN_PRECONDITION  it is a FIFO
 */
int change_list_read(const char *path, uint64_t size, const struct block_sink *sink,
		     struct cairn_err *err);

/* The same of an open file. */
int change_list_parse(FILE *file, uint64_t size, const struct block_sink *sink,
		      struct cairn_err *err);

#endif
