/* SPDX-License-Identifier: Apache-2.0 */

/* Plans what a prune does with each pack: pure except that it reads the
 * index. */
#ifndef CAIRN_REPO_PRUNE_PLAN_H
#define CAIRN_REPO_PRUNE_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "repo/index.h"
#include "repo/prune.h"

struct cairn_err;
struct repo_walk;

enum repo_pack_fate {
	REPO_FATE_KEEP,
	REPO_FATE_REPACK,
	REPO_FATE_DELETE,
};

struct repo_pack_plan {
	uint64_t used, unused; /* bytes of blobs */
	uint32_t blobs_used;
	uint8_t fate;
	bool mixed;    /* data and trees */
	bool wasteful; /* to be rewritten because of what is unused */
};

struct repo_prune_plan {
	struct repo_pack_plan *packs; /* one for each of the index */
	uint32_t n;
	struct repo_index_order order;
	uint64_t need; /* of the packs that are put off, the least space that one takes; 0: none */
};

/* A pack smaller than this fraction of the target size is small: many of them,
 * as small increments leave, are merged. */
#define REPO_PRUNE_SMALL_PART 5

/* Fills the plan and the statistics derived from it. `room` is the space that
 * rewritten packs may take. Where it is short, the packs with the largest unused part are chosen;
 * others are put off, and counted if rewriting them would free space. */
int repo_prune_plan(struct repo_index *index, const struct repo_walk *walk, uint64_t pack_size,
		    uint64_t room, const struct repo_prune_options *options,
		    struct repo_prune_plan *ret, struct repo_prune_stats *stats,
		    struct cairn_err *err);

/* Counts the fates of packs again, after some were changed. */
void repo_prune_plan_count(const struct repo_prune_plan *plan, struct repo_prune_stats *stats);

void repo_prune_plan_done(struct repo_prune_plan *plan);

#endif
