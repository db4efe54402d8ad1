/* SPDX-License-Identifier: Apache-2.0 */

#include "world.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "pool/store/store.h"

#define READ_CHUNK  (1U << 20)
#define EXTENTS_MAX 300U

/* Time for the pool's clock and ours to agree that something has expired. */
#define EXPIRY_SLACK_NS (2 * CAIRN_NS_PER_SEC)

static bool is_expired(const struct shot *shot)
{
	return shot->deleted && cairn_now_ns() + EXPIRY_SLACK_NS >= shot->expires_ns;
}

bool check_is_ancestor(const struct shot *old, const struct shot *young)
{
	for (; young; young = young->parent)
		if (young == old)
			return true;
	return false;
}

/* Whether the pool may refuse the pair: not related, in the wrong order, or
 * forgotten by expiry. */
static bool may_refuse(const struct shot *base, const struct shot *target, int code)
{
	if (is_expired(base))
		return code == CAIRN_PRECONDITION || code == CAIRN_NOT_FOUND ||
		       code == CAIRN_INVALID;
	if (code != CAIRN_INVALID || base == target)
		return false;
	if (check_is_ancestor(target, base))
		return true;
	/* A common ancestor that cannot have expired keeps them related. */
	for (const struct shot *shot = target; shot; shot = shot->parent)
		if (check_is_ancestor(shot, base) && !is_expired(shot))
			return false;
	return true;
}

struct answer {
	uint8_t *reported; /* a byte per sector */
	uint64_t position; /* end of the last extent */
	uint64_t start;
};

static void take_extent(struct world *world, const struct shot *target, struct answer *answer,
			const struct block_extent *extent)
{
	const struct content *content = &target->content;
	uint64_t end;

	if (extent->length == 0 || extent->offset < answer->position ||
	    __builtin_add_overflow(extent->offset, extent->length, &end) || end > content->size)
		world_fail(world, "target %s: extent %" PRIu64 "+%" PRIu64 " after %" PRIu64,
			   target->id, extent->offset, extent->length, answer->position);
	answer->position = end;
	for (uint64_t sector = extent->offset / SECTOR; extent->zero && sector * SECTOR < end;
	     sector++)
		if (content->sums[sector])
			world_fail(world,
				   "target %s: zero extent %" PRIu64 "+%" PRIu64
				   " is not zero at sector %" PRIu64,
				   target->id, extent->offset, extent->length, sector);
	/* A sector that is covered only in part is not covered, but where the
	 * starting offset cuts it. */
	for (uint64_t sector = extent->offset / SECTOR; sector * SECTOR < end; sector++) {
		uint64_t from = sector * SECTOR > answer->start ? sector * SECTOR : answer->start;

		if (extent->offset <= from && end >= (sector + 1) * SECTOR)
			answer->reported[sector] = 1;
	}
}

static int collect(struct world *world, struct shot *base, struct shot *target,
		   struct answer *answer, struct cairn_err *err)
{
	const struct pool_delta_spec spec = {
		.base = base ? base->id : NULL,
		.target = target->id,
		.starting_offset = answer->start,
	};
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
	struct block_extent extents[EXTENTS_MAX];
	size_t n, max = 1 + dice_below(&world->check_dice, EXTENTS_MAX);
	int rc = pool_delta_open(world->pool, &spec, &delta, err);

	if (rc != 0)
		return rc;
	if (pool_delta_info(delta)->capacity != target->content.size)
		world_fail(world, "target %s: wrong capacity", target->id);
	do {
		rc = pool_delta_next(delta, extents, max, &n, err);
		for (size_t i = 0; rc == 0 && i < n; i++)
			take_extent(world, target, answer, &extents[i]);
	} while (rc == 0 && n > 0);
	return rc;
}

/* What a sector of the base has to be the same as; what lies beyond the base's
 * end was not there. */
static bool sector_differs(const struct content *base, const struct content *target, uint64_t i)
{
	if (!base)
		return target->sums[i] != 0;
	return i >= base->size / SECTOR || base->sums[i] != target->sums[i];
}

static uint64_t count(struct world *world, struct shot *base, struct shot *target,
		      const struct answer *answer)
{
	const struct content *before = base ? &base->content : NULL;
	const uint64_t per_block = BLOCK / SECTOR, n = target->content.size / SECTOR;
	uint64_t changed = 0;

	for (uint64_t block = answer->start / BLOCK; block * per_block < n; block++) {
		bool differs = false, reported = false;

		for (uint64_t i = block * per_block; i < (block + 1) * per_block && i < n; i++) {
			bool here = sector_differs(before, &target->content, i);

			differs |= here;
			reported |= answer->reported[i];
			if (here && !answer->reported[i] && (i + 1) * SECTOR > answer->start)
				world_fail(world,
					   "MISSED: sector %" PRIu64 " (block %" PRIu64
					   ") of %s against %s, from %" PRIu64,
					   i, block, target->id, base ? base->id : "nothing",
					   answer->start);
		}
		changed += differs;
		world->stats.reported += base && reported;
	}
	return changed;
}

uint64_t check_pair(struct world *world, struct shot *base, struct shot *target, uint64_t start)
{
	struct answer answer = {.start = start};
	struct cairn_err err = {0};
	uint64_t changed = 0;
	int rc;

	answer.reported = calloc(target->content.size / SECTOR + 1, 1);
	if (!answer.reported)
		world_fail(world, "out of memory");
	rc = collect(world, base, target, &answer, &err);
	if (rc == 0) {
		changed = count(world, base, target, &answer);
		world->stats.pairs++;
		world->stats.changed += base ? changed : 0;
	} else if (base && may_refuse(base, target, rc)) {
		world->stats.refused++;
	} else {
		world_fail(world, "delta %s %s from %" PRIu64 ": %s (%s)",
			   base ? base->id : "nothing", target->id, start, err.msg,
			   cairn_code_name(rc));
	}
	free(answer.reported);
	return changed;
}

static void read_all(struct world *world, struct shot *shot, struct content *content)
{
	struct store_reader *reader = NULL;
	static uint8_t buf[READ_CHUNK];
	uint64_t size = shot->content.size;

	must(world, pool_snapshot_reader(world->pool, shot->id, &reader, &world->err));
	for (uint64_t at = 0; at < size; at += READ_CHUNK) {
		size_t want = size - at < READ_CHUNK ? size - at : READ_CHUNK, got = 0;

		must(world, pool_store_reader_read(reader, at, buf, want, &got, &world->err));
		if (got != want)
			world_fail(world, "snapshot %s is too short", shot->id);
		content_write(content, at, buf, want);
	}
	pool_store_reader_free(reader);
}

void check_read(struct world *world, struct shot *shot)
{
	read_all(world, shot, &shot->content);
}

void check_content(struct world *world, struct shot *shot)
{
	struct content found;

	content_init(&found, shot->content.size);
	read_all(world, shot, &found);
	for (uint64_t i = 0; i < found.size / SECTOR; i++)
		if (found.sums[i] != shot->content.sums[i])
			world_fail(world, "snapshot %s holds other data at sector %" PRIu64,
				   shot->id, i);
	content_done(&found);
}
