/* SPDX-License-Identifier: Apache-2.0 */

/* Detects whether a file changed between two moments.
 *
 * It compares the change time, of whatever resolution: the first moment is chosen such
 * that the filesystem already stamps changes with a different time than the file has. A
 * change that was in progress at the first moment and continues is not seen: see
 * sparse_copy.c.
 */
#ifndef CAIRN_POOL_STILL_H
#define CAIRN_POOL_STILL_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

struct still {
	int fd, scratch;
	uint64_t size; /* of the file */
	int64_t modified_ns, changed_ns;
	int64_t start_ns; /* the filesystem's time at the first moment */
};

/* The first moment. `scratch` is another file on the filesystem, whose times are set.
 * Takes up to one tick of the filesystem's clock, which is two seconds on FAT.
 *
 * CAIRN_ABORTED  the file is changed continuously
 */
int pool_file_unchanged_begin(struct still *still, int fd, int scratch, struct cairn_err *err);

/* The second moment. */
int pool_file_unchanged_end(const struct still *still, bool *ret_changed, struct cairn_err *err);

#endif
