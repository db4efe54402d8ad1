/* SPDX-License-Identifier: Apache-2.0 */

/* Did a file change between two moments?
 *
 * By its time of change, whatever resolution that has: the first moment is one at which
 * the filesystem itself stamps changes with another time than the file has. A change that
 * was under way at the first moment and goes on is not seen: see sparse_copy.c.
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
 * Takes up to a step of the filesystem's clock, which FAT counts in two seconds.
 *
 * CAIRN_ABORTED  it is being changed all the time
 */
int still_begin(struct still *still, int fd, int scratch, struct cairn_err *err);

/* The second one. */
int still_end(const struct still *still, bool *ret_changed, struct cairn_err *err);

#endif
