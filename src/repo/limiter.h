/* SPDX-License-Identifier: Apache-2.0 */

/* Limits how many bytes a second pass, over all threads that share it.
 *
 * Bytes are let through in slices of a fiftieth of a second, each at its own time, so
 * that a limit of 1 MiB/s is 20 KiB every 20 ms and not a megabyte at once. Time in which
 * nothing was sent is not saved up. Threads are served in the order in which they ask.
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
	uint64_t rate;         /* bytes a second; 0: no limit */
	uint64_t next_ns;      /* when the next byte may pass, on the monotonic clock */
};

/* Both ways of a store. */
struct repo_limits {
	struct repo_limiter upload;
	struct repo_limiter download;
};

void repo_limiter_init(struct repo_limiter *limiter, uint64_t rate);

/* How many bytes to hand on at a time, at most `n`; `n` without a limit. */
size_t repo_limiter_slice(const struct repo_limiter *limiter, size_t n);

/* Returns when `n` bytes, at most a slice, may pass; at once without a limit, NULL
 * included. False when `cancelled` (or NULL) says so before. */
bool repo_limiter_wait(struct repo_limiter *limiter, size_t n, bool (*cancelled)(void));

#endif
