/* SPDX-License-Identifier: Apache-2.0 */

/* A list of changed extents in a file, as `cairn delta` writes it with --output json or
 * ndjson: an extent a line, in any order.
 *
 *   {"byte_offset":8192,"size_bytes":4096}
 *
 * A list that was cut short must not pass for a short list: the last line must be whole, a
 * document must have its end, and an empty file is refused.
 */
#ifndef CAIRN_BACKUP_CHANGE_LIST_H
#define CAIRN_BACKUP_CHANGE_LIST_H

#include <stdint.h>

struct block_sink;
struct cairn_err;

/* `size` is that of the volume.
 *
 * CAIRN_INVALID  it is no such list, or one of a longer volume; the text says which line
 */
int change_list_read(const char *path, uint64_t size, const struct block_sink *sink,
		     struct cairn_err *err);

#endif
