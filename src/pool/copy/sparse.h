/* SPDX-License-Identifier: Apache-2.0 */

/* Copying and comparing files with holes. */
#ifndef CAIRN_POOL_COPY_SPARSE_H
#define CAIRN_POOL_COPY_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct block_sink;
struct cairn_err;
struct store_progress;

/* Copies `size` bytes into the empty file `to`; holes stay holes, and runs of
 * zeros become holes. Nothing is synced. */
int copy_sparse_copy(int from, int to, uint64_t size, struct cairn_err *err);

/* Like copy_sparse_copy() of the whole file, but checks by the file's change time that it
 * was not written during the copy, and repeats it a few times. Both files are on one
 * filesystem.
 *
 * CAIRN_ABORTED  the file was written during every attempt
 */
int copy_sparse_copy_still(int from, int to, struct cairn_err *err);

/* Emits every 512-byte sector of `target` that differs from `base`, and everything
 * beyond the base's size; a 4 KiB block that differs and is now zero is emitted whole. */
int copy_sparse_compare(int base, int target, struct block_sink sink,
			const struct store_progress *progress, uint64_t *ret_runs,
			struct cairn_err *err);

bool copy_sparse_is_zero(const void *data, size_t n);

#endif
