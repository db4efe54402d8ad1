/* SPDX-License-Identifier: Apache-2.0 */

#include "base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

static atomic_size_t asked;
static atomic_size_t fail_at; /* 0: never */
static atomic_bool fail_after;

__attribute__((constructor)) static void fail_from_environment(void)
{
	const char *text = getenv("CAIRN_FAIL_ALLOC");
	uint64_t n;

	if (text && cairn_parse_u64(text, &n, NULL) == 0)
		fail_at = (size_t)n;
}

static bool must_fail(void)
{
	size_t n = atomic_fetch_add_explicit(&asked, 1, memory_order_relaxed) + 1;
	size_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);

	return at != 0 && (n == at || (n > at && fail_after));
}

void cairn_mem_fail_at(size_t n, int and_after)
{
	asked = 0;
	fail_after = and_after != 0;
	fail_at = n;
}

size_t cairn_mem_count(void)
{
	return asked;
}

void *cairn_alloc(size_t size)
{
	return must_fail() ? NULL : malloc(size ? size : 1);
}

void *cairn_alloc_aligned(size_t align, size_t size)
{
	void *p = NULL;

	return must_fail() || posix_memalign(&p, align, size ? size : 1) != 0 ? NULL : p;
}

void *cairn_calloc(size_t n, size_t size)
{
	return must_fail() ? NULL : calloc(n ? n : 1, size ? size : 1);
}

void *cairn_realloc_array(void *p, size_t n, size_t size)
{
	return must_fail() ? NULL : reallocarray(p, n ? n : 1, size ? size : 1);
}

void *cairn_memdup(const void *p, size_t n)
{
	void *copy = cairn_alloc(n);

	if (copy && n > 0)
		memcpy(copy, p, n);
	return copy;
}

char *cairn_strndup(const char *s, size_t n)
{
	size_t len = strnlen(s, n);
	char *copy = cairn_alloc(len + 1);

	if (!copy)
		return NULL;
	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *cairn_strdup(const char *s)
{
	return cairn_strndup(s, strlen(s));
}

char *cairn_printf(const char *fmt, ...)
{
	va_list args;
	char *text = NULL;
	int n;

	if (must_fail())
		return NULL;
	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	return n < 0 ? NULL : text;
}
