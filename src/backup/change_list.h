/* SPDX-License-Identifier: Apache-2.0 */

/* A list of changed extents in a file, one extent per line, in any order.
 *
 *   {"byte_offset":8192,"size_bytes":4096}
 *
 * The list is trusted: a change that it omits is missing in the backup. So a truncated
 * list must not be mistaken for a short one, and a list must mark its end:
 *   - a document as `cairn delta --output json` writes it ends with the line ]}
 *   - lines without a document around them end with the line {"end":true}
 * Empty lines are errors. So is a document that declares itself partial, of another size,
 * or a list of allocated extents, which omits extents that became holes.
 */
#ifndef CAIRN_BACKUP_CHANGE_LIST_H
#define CAIRN_BACKUP_CHANGE_LIST_H

#include <stdint.h>
#include <stdio.h>

struct block_sink;
struct cairn_err;

/* Limits lines without an end. */
#define CHANGE_LIST_LINE_MAX 4096U

/* `size` is that of the volume. Extents are passed to the sink before the end was seen, so
 * on failure it has received some of them.
 *
 * CAIRN_INVALID       not such a list, or one of another volume; the text names the line
 * CAIRN_PRECONDITION  it is a FIFO
 */
int backup_change_list_read(const char *path, uint64_t size, const struct block_sink *sink,
			    struct cairn_err *err);

/* The same for an open file. */
int backup_change_list_parse(FILE *file, uint64_t size, const struct block_sink *sink,
			     struct cairn_err *err);

#endif
