/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdint.h>
#include <string.h>

#include "net/alloc_cache.h"

static int set_up(void **state)
{
	static struct net_alloc_cache recycle;

	net_alloc_cache_init(&recycle);
	*state = &recycle;
	return 0;
}

static int tear_down(void **state)
{
	net_alloc_cache_done(*state);
	return 0;
}

static void a_freed_block_is_used_again_for_its_size(void **state)
{
	struct net_alloc_cache *recycle = *state;
	nghttp2_mem *mem = &recycle->mem;
	void *small = mem->malloc(100, recycle), *again;

	assert_non_null(small);
	mem->free(small, recycle);
	mem->free(NULL, recycle);
	assert_int_equal(recycle->kept[1], NET_RECYCLE_KEPT > 0 ? 1 : 0);
	again = mem->malloc(128, recycle);
	assert_non_null(again);
	assert_int_equal(recycle->kept[1], 0);
	mem->free(again, recycle);
}

static void only_so_many_blocks_are_kept(void **state)
{
	struct net_alloc_cache *recycle = *state;
	nghttp2_mem *mem = &recycle->mem;
	void *blocks[NET_RECYCLE_KEPT + 50], *large;

	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		blocks[i] = mem->malloc(10, recycle);
		assert_non_null(blocks[i]);
	}
	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
		mem->free(blocks[i], recycle);
	assert_int_equal(recycle->kept[0], NET_RECYCLE_KEPT);
	large = mem->malloc(100000, recycle);
	assert_non_null(large);
	mem->free(large, recycle);
	for (unsigned i = 0, sum = 0; i < NET_RECYCLE_CLASSES; i++)
		assert_true((sum += recycle->kept[i]) <= NET_RECYCLE_KEPT + 1);
}

static void memory_that_grows_keeps_its_bytes(void **state)
{
	struct net_alloc_cache *recycle = *state;
	nghttp2_mem *mem = &recycle->mem;
	uint8_t *p = mem->realloc(NULL, 30, recycle), *q;

	assert_non_null(p);
	memset(p, 7, 30);
	for (size_t size = 30; size < 5000; size += 37) {
		q = mem->realloc(p, size, recycle);
		assert_non_null(q);
		for (size_t i = 0; i < 30; i++)
			assert_int_equal(q[i], 7);
		memset(q, 7, size);
		p = q;
	}
	mem->free(p, recycle);
}

static void zeroed_memory_is_zero_though_used_before(void **state)
{
	struct net_alloc_cache *recycle = *state;
	nghttp2_mem *mem = &recycle->mem;
	uint8_t *p = mem->malloc(200, recycle);

	assert_non_null(p);
	memset(p, 0xff, 200);
	mem->free(p, recycle);
	p = mem->calloc(4, 50, recycle);
	assert_non_null(p);
	for (size_t i = 0; i < 200; i++)
		assert_int_equal(p[i], 0);
	mem->free(p, recycle);
}

static void sizes_that_overflow_are_refused(void **state)
{
	struct net_alloc_cache *recycle = *state;
	nghttp2_mem *mem = &recycle->mem;

	assert_null(mem->calloc(SIZE_MAX / 2, 3, recycle));
	assert_null(mem->malloc(SIZE_MAX, recycle));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_freed_block_is_used_again_for_its_size),
		cmocka_unit_test(only_so_many_blocks_are_kept),
		cmocka_unit_test(memory_that_grows_keeps_its_bytes),
		cmocka_unit_test(zeroed_memory_is_zero_though_used_before),
		cmocka_unit_test(sizes_that_overflow_are_refused),
	};

	return cmocka_run_group_tests_name("net/alloc_cache", tests, set_up, tear_down);
}
