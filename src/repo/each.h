/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a function for many items on a few threads. */
#ifndef CAIRN_REPO_EACH_H
#define CAIRN_REPO_EACH_H

#include <stddef.h>

struct cairn_err;

#define REPO_EACH_THREADS_MAX 16

/* Calls `fn` for 0 to n - 1, in no particular order, on up to `threads` threads
 * including the calling one. The first negative return ends the loop and is
 * returned. */
int repo_each(size_t n, unsigned threads, int (*fn)(void *arg, size_t i, struct cairn_err *err),
	      void *arg, struct cairn_err *err);

#endif
