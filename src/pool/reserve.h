/* SPDX-License-Identifier: Apache-2.0 */

/* The space that only freeing may use: a file `reserve` in the pool's data
 * directory, and for an image one more beside the image.
 *
 * Deleting writes before it frees. When that fails for want of space, the reserve
 * is cut by a slice and the operation is repeated. Operations that use space up
 * begin with reserve_require(), which makes the reserve whole again and refuses
 * where it cannot. Sizes and reasons: docs/decisions/003-a-reserve-for-freeing.md.
 *
 * Any number of processes may call these at the same time.
 */
#ifndef CAIRN_POOL_RESERVE_H
#define CAIRN_POOL_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct pool;

#define RESERVE_SLICE (1U << 20)
#define RESERVE_MAX   (8U << 20)

/* Of a filesystem of that many bytes, what is kept; a multiple of a slice. */
uint64_t reserve_size_for(uint64_t total_bytes);

/* Frees a slice of the reserve in this directory; false when there is none left. */
bool reserve_yield(int dir_fd);

/* After a freeing operation of the pool returned `rc`: true when it failed for
 * want of space and a slice was freed, so that it is to be repeated. */
bool reserve_helps(struct pool *pool, int rc, const struct cairn_err *err);

/* Makes the reserve whole where the space is not needed more elsewhere, for which
 * an image gives its free space back to its host. A failure is no failure of the
 * caller. */
void reserve_refill(struct pool *pool);

/* For the begin of an operation that takes space: makes the reserve whole.
 *
 * CAIRN_NO_SPACE  there is no space for it, or less than a slice beside it
 */
int reserve_require(struct pool *pool, struct cairn_err *err);

/* Before freeing: an image whose host is full would fail to write what it has to,
 * and its filesystem would stop for good. Frees the host's reserve. */
void reserve_prepare(struct pool *pool);

#endif
