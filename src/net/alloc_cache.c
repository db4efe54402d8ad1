/* SPDX-License-Identifier: Apache-2.0 */

#include "net/alloc_cache.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SMALLEST 64U
#define NO_CLASS NET_RECYCLE_CLASSES
#define HEAD     offsetof(struct net_alloc_cache_block, data)

struct net_alloc_cache_block {
	struct net_alloc_cache_block *next; /* used while the block is free */
	size_t size;                        /* of `data` */
	_Alignas(max_align_t) uint8_t data[];
};

static unsigned alloc_cache_class_of(size_t size)
{
	unsigned class = 0;

	while (class < NO_CLASS && (size_t)SMALLEST << class < size)
		class ++;
	return class;
}

static struct net_alloc_cache_block *block_of(void *p)
{
	return (struct net_alloc_cache_block *)(void *)((uint8_t *)p - HEAD);
}

static void *alloc_cache_get(size_t size, void *arg)
{
	struct net_alloc_cache *recycle = arg;
	unsigned class = alloc_cache_class_of(size);
	struct net_alloc_cache_block *block;

	if (class < NO_CLASS) {
		size = (size_t)SMALLEST << class;
		block = recycle->free[class];
		if (block) {
			recycle->free[class] = block->next;
			recycle->kept[class]--;
			return block->data;
		}
	}
	if (size > SIZE_MAX - HEAD)
		return NULL;
	block = cairn_alloc(HEAD + size);
	if (!block)
		return NULL;
	block->size = size;
	return block->data;
}

static void alloc_cache_put(void *p, void *arg)
{
	struct net_alloc_cache *recycle = arg;
	struct net_alloc_cache_block *block;
	unsigned class;

	if (!p)
		return;
	block = block_of(p);
	class = alloc_cache_class_of(block->size);
	if (class == NO_CLASS || recycle->kept[class] + 1 > NET_RECYCLE_KEPT) {
		free(block);
		return;
	}
	block->next = recycle->free[class];
	recycle->free[class] = block;
	recycle->kept[class]++;
}

static void *get_zeroed(size_t n, size_t size, void *arg)
{
	size_t bytes;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	p = alloc_cache_get(bytes, arg);
	if (p)
		memset(p, 0, bytes);
	return p;
}

static void *alloc_cache_resize(void *p, size_t size, void *arg)
{
	struct net_alloc_cache_block *block = p ? block_of(p) : NULL;
	void *bigger;

	if (block && size <= block->size)
		return p;
	bigger = alloc_cache_get(size, arg);
	if (bigger && block) {
		memcpy(bigger, p, block->size);
		alloc_cache_put(p, arg);
	}
	return bigger;
}

void net_alloc_cache_init(struct net_alloc_cache *recycle)
{
	*recycle = (struct net_alloc_cache){
		.mem = {.mem_user_data = recycle,
			.malloc = alloc_cache_get,
			.free = alloc_cache_put,
			.calloc = get_zeroed,
			.realloc = alloc_cache_resize},
	};
}

void net_alloc_cache_done(struct net_alloc_cache *recycle)
{
	for (unsigned class = 0; class < NET_RECYCLE_CLASSES; class ++) {
		while (recycle->free[class]) {
			struct net_alloc_cache_block *block = recycle->free[class];

			recycle->free[class] = block->next;
			free(block);
		}
	}
}
