/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of repo/index.c and repo/index_attach.c. */
#ifndef CAIRN_REPO_INDEX_IMPL_H
#define CAIRN_REPO_INDEX_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/id.h"
#include "repo/index.h"

struct repo_index_cache;

struct index_entry {
	struct repo_id id;
	uint32_t pack : 31;
	uint32_t tree : 1;
	uint32_t offset, length, plain;
};

struct index_pack {
	struct repo_id id;
	uint32_t state;
};

/* Open addressing; a slot holds a number + 1, 0 is empty. */
struct index_table {
	uint32_t *slots;
	size_t n; /* a power of two */
	size_t used;
};

struct repo_index {
	pthread_rwlock_t lock; /* guards all fields below */
	struct index_entry **blocks;
	size_t blocks_cap;
	uint32_t entries;
	struct index_pack *packs;
	size_t packs_cap;
	uint32_t n_packs;
	struct index_table by_blob, by_pack;
	struct index_attached {
		struct repo_index_cache *cache;
		uint32_t *packs; /* maps its packs to numbers in this index */
	} * attached;
	size_t n_attached;
};

static inline pthread_rwlock_t *index_read_lock(pthread_rwlock_t *lock)
{
	pthread_rwlock_rdlock(lock);
	return lock;
}

static inline pthread_rwlock_t *index_write_lock(pthread_rwlock_t *lock)
{
	pthread_rwlock_wrlock(lock);
	return lock;
}

static inline void index_unlockp(pthread_rwlock_t **lock)
{
	pthread_rwlock_unlock(*lock);
}

/* Hold the lock until the end of the block. */
#define reading(index)                                                                \
	pthread_rwlock_t *held cairn_cleanup(index_unlockp) __attribute__((unused)) = \
		index_read_lock(&(index)->lock)
#define writing(index)                                                                \
	pthread_rwlock_t *held cairn_cleanup(index_unlockp) __attribute__((unused)) = \
		index_write_lock(&(index)->lock)

/* Finds copy `number` of the blob in the attached caches. Called with the lock held. */
bool repo_index_find_attached(const struct repo_index *index, enum repo_blob_type type,
			      const struct repo_id *id, unsigned number, struct repo_place *ret);

#endif
