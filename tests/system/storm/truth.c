/* SPDX-License-Identifier: Apache-2.0 */

#include "storm.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/ids.h"
#include "pool/store/store.h"

#define EXTENTS 64

void storm_ack(struct storm *storm, char what, const char *id)
{
	char line[POOL_ID_MAX + 4];
	int n = snprintf(line, sizeof(line), "%c%s\n", what, id);

	/* One write to the end of a file is whole, also beside others. */
	if (write(storm->acks, line, (size_t)n) != n)
		storm_fail("cannot keep the truth");
}

static uint64_t sum_of(const void *block)
{
	static const uint8_t zeros[STORM_BLOCK];
	uint64_t sum;

	if (memcmp(block, zeros, STORM_BLOCK) == 0)
		return 0;
	sum = XXH3_64bits(block, STORM_BLOCK);
	return sum ? sum : 1;
}

int storm_sums_read(struct pool *pool, const char *snapshot, struct storm_sums *ret,
		    uint64_t stamps[STORM_BLOCKS_MAX], struct cairn_err *err)
{
	cairn_cleanup(pool_store_reader_freep) struct store_reader *reader = NULL;
	struct pool_snapshot info;
	int rc = pool_snapshot_get(pool, snapshot, &info, err);

	if (!rc)
		rc = pool_snapshot_reader(pool, snapshot, &reader, err);
	if (rc)
		return rc;
	*ret = (struct storm_sums){.size = info.size};
	for (uint64_t i = 0; i < info.size / STORM_BLOCK; i++) {
		uint64_t block[STORM_BLOCK / sizeof(uint64_t)] = {0};
		size_t n;

		rc = pool_store_reader_read(reader, i * STORM_BLOCK, block, STORM_BLOCK, &n, err);
		if (rc)
			return rc;
		if (n != STORM_BLOCK)
			storm_fail("snapshot %s ends in block %llu", snapshot,
				   (unsigned long long)i);
		ret->blocks[i] = sum_of(block);
		if (stamps)
			stamps[i] = block[0];
	}
	return 0;
}

void storm_sums_keep(struct storm *storm, const char *snapshot, const struct storm_sums *sums)
{
	char name[POOL_ID_MAX + 32];
	int fd;

	/* A thread writes its own name, and the whole file appears at once. */
	snprintf(name, sizeof(name), "tmp-%s", snapshot);
	fd = openat(storm->sums, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, sums, sizeof(*sums)) != (ssize_t)sizeof(*sums))
		storm_fail("cannot keep the truth");
	close(fd);
	if (renameat(storm->sums, name, storm->sums, snapshot) < 0)
		storm_fail("cannot keep the truth");
}

bool storm_sums_find(struct storm *storm, const char *snapshot, struct storm_sums *ret)
{
	cairn_auto_fd int fd = openat(storm->sums, snapshot, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret);
}

static bool is_changed(const struct storm_sums *base, const struct storm_sums *target, uint64_t i)
{
	uint64_t before = base && i < base->size / STORM_BLOCK ? base->blocks[i] : 0;

	return before != target->blocks[i];
}

bool storm_delta_compare(struct storm *storm, struct pool_delta *delta,
			 const struct storm_sums *base, const struct storm_sums *target)
{
	const struct pool_delta_info *info = pool_delta_info(delta);
	bool in_delta[STORM_BLOCKS_MAX] = {false};
	struct block_extent extents[EXTENTS];
	struct cairn_err err = {0};
	size_t n = 1;

	while (n > 0) {
		int rc = pool_delta_next(delta, extents, EXTENTS, &n, &err);

		if (rc == CAIRN_NOT_FOUND && !base)
			return false;
		if (rc)
			storm_fail("delta of %s: %s", info->target.id, err.msg);
		for (size_t i = 0; i < n; i++)
			for (uint64_t at = extents[i].offset / STORM_BLOCK;
			     at * STORM_BLOCK < block_extent_end(&extents[i]); at++)
				if (at < STORM_BLOCKS_MAX)
					in_delta[at] = true;
	}
	for (uint64_t i = 0; i < target->size / STORM_BLOCK; i++)
		if (is_changed(base, target, i) && !in_delta[i])
			storm_fail("block %llu is not in the delta from '%s' to %s",
				   (unsigned long long)i, base ? info->base.id : "nothing",
				   info->target.id);
	atomic_fetch_add(&storm->shared->deltas, 1);
	return true;
}

struct storm_written *storm_written_of(struct storm *storm, const char *volume_id)
{
	uint64_t volume;

	if (!pool_ids_parse_volume(volume_id, &volume) || volume == 0)
		return NULL;
	for (uint64_t i = 0; i < STORM_WRITES; i++) {
		struct storm_written *at = &storm->shared->written[(volume + i) % STORM_WRITES];
		uint64_t free_one = 0;

		if (atomic_compare_exchange_strong(&at->volume, &free_one, volume) ||
		    free_one == volume)
			return at;
	}
	return NULL;
}
