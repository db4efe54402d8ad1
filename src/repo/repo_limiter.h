/* SPDX-License-Identifier: Apache-2.0 */

/* Limits the bytes per second of all threads that share it.
 *
 * Bytes pass in slices of a fiftieth of a second, so that a limit of 1 MiB/s is 20 KiB
 * every 20 ms and not a megabyte at once. Unused time does not accumulate. Threads are
 * served in the order in which they ask.
 */
#ifndef CAIRN_REPO_LIMITER_H
#define CAIRN_REPO_LIMITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPO_LIMITER_SLICE_MIN 512U
#define REPO_LIMITER_SLICE_MAX (64U << 10)

struct repo_limiter {
	pthread_mutex_t mutex; /* guards `next_ns` */
	uint64_t rate;         /* bytes per second; 0: no limit */
	uint64_t next_ns;      /* when the next byte may pass, on the monotonic clock */
};

/* Both directions of a store. */
struct repo_limits {
	struct repo_limiter upload;
	struct repo_limiter download;
};

void repo_limiter_init(struct repo_limiter *limiter, uint64_t rate);

/* How many bytes to pass on at a time, at most `n`; without a limit, `n`. */
size_t repo_limiter_slice(const struct repo_limiter *limiter, size_t n);

/* Waits until `n` bytes, at most a slice, may pass; returns at once without a
 * limit or with a NULL limiter. False when `cancelled` (may be NULL) returns true
 * first. */
bool repo_limiter_wait(struct repo_limiter *limiter, size_t n, bool (*cancelled)(void));

#endif
