/* SPDX-License-Identifier: Apache-2.0 */

/* Memory allocation.
 *
 * Running out of memory is an error that the caller reports, never an exit. All our
 * allocations use these functions, so that a test can make the n-th one fail and check
 * that nothing is lost. Free the results with free().
 */
#ifndef CAIRN_BASE_MEM_H
#define CAIRN_BASE_MEM_H

#include <stddef.h>

void *cairn_alloc(size_t size) __attribute__((malloc, warn_unused_result));

/* At a multiple of `align`, a power of two. */
void *cairn_alloc_aligned(size_t align, size_t size) __attribute__((malloc, warn_unused_result));

/* Zeroed; NULL also when n * size overflows. */
void *cairn_calloc(size_t n, size_t size) __attribute__((malloc, warn_unused_result));

/* Like realloc() of an array; `p` stays valid on failure. */
void *cairn_realloc_array(void *p, size_t n, size_t size) __attribute__((warn_unused_result));

char *cairn_strdup(const char *s) __attribute__((malloc, warn_unused_result));
char *cairn_strndup(const char *s, size_t n) __attribute__((malloc, warn_unused_result));
void *cairn_memdup(const void *p, size_t n) __attribute__((malloc, warn_unused_result));

/* NULL when memory is short. */
char *cairn_printf(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), malloc, warn_unused_result));

/* Releases clean mapped pages of programs and libraries; pages in use are read again on
 * access. For a daemon at the end of each start-up phase: loading and setting up thirty
 * libraries touches megabytes that are not used again. */
void cairn_mem_drop_clean(void);

/* For tests: the n-th allocation from now (1 is the next) returns NULL, and so
 * does every later one when `and_after` is set; 0 switches it off. Also set at
 * start from the environment: CAIRN_FAIL_ALLOC=n. */
void cairn_mem_fail_at(size_t n, int and_after);

/* For tests: the number of allocations since the last cairn_mem_fail_at(). */
size_t cairn_mem_count(void);

#endif
