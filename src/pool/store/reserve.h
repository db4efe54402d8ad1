/* SPDX-License-Identifier: Apache-2.0 */

/* Space reserved for operations that free space: a file `reserve` in the pool's
 * data directory, and for an image a second one next to the image.
 *
 * Deleting writes before it frees. When that fails for lack of space, the reserve
 * is shortened by a slice and the operation is retried. Operations that consume
 * space begin with pool_reserve_require(), which refills the reserve and fails if it
 * cannot. Sizes and reasons: docs/decisions/003-a-reserve-for-freeing.md.
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

/* Size of the reserve for a filesystem of that many bytes; a multiple of a
 * slice. */
uint64_t pool_reserve_size_for(uint64_t total_bytes);

/* Frees a slice of the reserve in this directory; false when there is none left. */
bool pool_reserve_yield(int dir_fd);

/* After a freeing operation of the pool returned `rc`: true when it failed for
 * lack of space and a slice was freed, so that the caller should retry. */
bool pool_reserve_helps(struct pool *pool, int rc, const struct cairn_err *err);

/* Called when the pool was opened: without a reserve, several processes may have to use
 * the catalogue alone, one after the other. */
void pool_reserve_expect(struct pool *pool);

/* Refills the reserve unless the space is needed more elsewhere; for this, an
 * image returns its free space to its host. Failures are not reported to the
 * caller. */
void pool_reserve_refill(struct pool *pool);

/* Called at the start of an operation that consumes space: refills the reserve.
 *
 * CAIRN_NO_SPACE  no space for the reserve, or less than a slice besides it
 */
int pool_reserve_require(struct pool *pool, struct cairn_err *err);

/* True if the host of an image has so little space that the image's writes may fail. */
bool pool_reserve_host_is_low(const struct pool *pool);

/* Called when an image that had shut down was mounted again: if its host is full, returns the blocks that the
 * image does not use to the host, before anything is written. */
void pool_reserve_trim(const struct pool *pool);

/* Called before freeing: an image whose host is full would fail to write, and its
 * filesystem would shut down. Frees the host's reserve, then the blocks that the image
 * does not use. */
void pool_reserve_prepare(struct pool *pool);

#endif
