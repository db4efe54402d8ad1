/* SPDX-License-Identifier: Apache-2.0 */

/* Work that several threads do together, the calling one among them.
 *
 * The first failure is the result of all; the other threads stop when they next look. If
 * fewer threads can be started, those that exist do all of the work.
 */
#ifndef CAIRN_BASE_PARALLEL_H
#define CAIRN_BASE_PARALLEL_H

#include <stdatomic.h>
#include <stddef.h>

struct cairn_err;

#define CAIRN_PARALLEL_EACH_MAX 16U

/* Calls `work` on up to `threads` threads, once on each. It takes tasks until there are none
 * left or `*failed` is true. Returns 0, or the code of the first `work` that was negative. */
int cairn_parallel_run(unsigned threads,
		       int (*work)(void *arg, const atomic_bool *failed, struct cairn_err *err),
		       void *arg, struct cairn_err *err);

/* Calls `fn` for 0 to n - 1, in no particular order, on up to `threads` threads, at most
 * CAIRN_PARALLEL_EACH_MAX. */
int cairn_parallel_each(size_t n, unsigned threads,
			int (*fn)(void *arg, size_t i, struct cairn_err *err), void *arg,
			struct cairn_err *err);

#endif
