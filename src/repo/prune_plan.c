/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/prune_plan.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "repo/walk.h"

#define HEADER_PART 16 /* overhead of headers and half-filled last packs: at most one part in 16 */

void repo_prune_plan_done(struct repo_prune_plan *plan)
{
	free(plan->packs);
	repo_index_order_done(&plan->order);
	*plan = (struct repo_prune_plan){0};
}

static void survey_pack(struct repo_index *index, const struct repo_walk *walk,
			struct repo_prune_plan *plan, uint32_t p, struct repo_prune_stats *stats)
{
	struct repo_pack_plan *pack = &plan->packs[p];
	unsigned types = 0;

	for (uint32_t i = plan->order.starts[p]; i < plan->order.starts[p + 1]; i++) {
		uint32_t entry = plan->order.order[i], first = entry, number;
		struct repo_pack_blob blob;

		repo_index_at(index, entry, &blob, &number);
		types |= 1U << blob.type;
		if (repo_walk_marked(walk, entry)) {
			pack->used += blob.length;
			pack->blobs_used++;
			stats->blobs_used++;
			continue;
		}
		pack->unused += blob.length;
		if (repo_index_entry(index, (enum repo_blob_type)blob.type, &blob.id, &first) &&
		    first != entry && repo_walk_marked(walk, first))
			stats->blobs_duplicate++;
		else
			stats->blobs_unused++;
	}
	pack->mixed = types == 3;
	stats->bytes_used += pack->used;
	stats->bytes_unused += pack->unused;
}

/* Chooses small packs of one type for rewriting if together they fill a pack. */
static void choose_small(struct repo_index *index, struct repo_prune_plan *plan, uint64_t pack_size)
{
	for (int type = 0; type < 2; type++) {
		uint64_t sum = 0;

		for (int pass = 0; pass < 2; pass++) {
			for (uint32_t p = 0; p < plan->n; p++) {
				struct repo_pack_plan *pack = &plan->packs[p];
				struct repo_pack_blob blob;
				uint32_t number;

				if (pack->fate != REPO_FATE_KEEP || pack->blobs_used == 0 ||
				    pack->used >= pack_size / REPO_PRUNE_SMALL_PART)
					continue;
				repo_index_at(index, plan->order.order[plan->order.starts[p]],
					      &blob, &number);
				if (blob.type != type)
					continue;
				if (pass == 0)
					sum += pack->used;
				else
					pack->fate = REPO_FATE_REPACK;
			}
			if (sum < pack_size)
				break;
		}
	}
}

struct candidate {
	uint32_t pack;
	double waste; /* the unused fraction */
};

static struct candidate candidate_of(const struct repo_prune_plan *plan, uint32_t p)
{
	double used = (double)plan->packs[p].used, unused = (double)plan->packs[p].unused;

	return (struct candidate){p, unused / (used + unused)};
}

static int most_waste_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->waste > y->waste ? -1 : x->waste < y->waste;
}

/* Chooses packs for rewriting until the unused space is below the limit. */
static int choose_wasteful(struct repo_prune_plan *plan, const struct repo_prune_options *options,
			   const struct repo_prune_stats *stats, struct cairn_err *err)
{
	cairn_auto_free struct candidate *list = cairn_calloc(plan->n, sizeof(*list));
	uint64_t allowed = stats->bytes_used / 1000 * options->max_unused_tenth;
	uint64_t waste = 0, repack = 0;
	uint32_t n = 0;

	if (!list)
		return cairn_err_nomem(err, "a plan");
	for (uint32_t p = 0; p < plan->n; p++) {
		const struct repo_pack_plan *pack = &plan->packs[p];

		if (pack->fate != REPO_FATE_KEEP || pack->unused == 0)
			continue;
		list[n++] = candidate_of(plan, p);
		waste += pack->unused;
	}
	qsort(list, n, sizeof(*list), most_waste_first);
	for (uint32_t i = 0; i < n && waste > allowed; i++) {
		struct repo_pack_plan *pack = &plan->packs[list[i].pack];

		if (options->max_repack_bytes && repack + pack->used > options->max_repack_bytes)
			continue;
		pack->fate = REPO_FATE_REPACK;
		pack->wasteful = true;
		repack += pack->used;
		waste -= pack->unused;
	}
	return 0;
}

/* Packs for which there is no space are left unchanged. */
static int put_off(struct repo_prune_plan *plan, uint64_t room, struct repo_prune_stats *stats,
		   struct cairn_err *err)
{
	cairn_auto_free struct candidate *list = cairn_calloc(plan->n, sizeof(*list));
	uint32_t n = 0;

	if (!list)
		return cairn_err_nomem(err, "a plan");
	for (uint32_t p = 0; p < plan->n; p++)
		if (plan->packs[p].fate == REPO_FATE_REPACK)
			list[n++] = candidate_of(plan, p);
	qsort(list, n, sizeof(*list), most_waste_first);
	for (uint32_t i = 0; i < n; i++) {
		struct repo_pack_plan *pack = &plan->packs[list[i].pack];
		uint64_t need = pack->used + pack->used / HEADER_PART;

		if (need <= room) {
			room -= need;
			continue;
		}
		pack->fate = REPO_FATE_KEEP;
		if (!pack->wasteful) /* it would free nothing */
			continue;
		stats->packs_put_off++;
		if (plan->need == 0 || need < plan->need)
			plan->need = need;
	}
	return 0;
}

void repo_prune_plan_count(const struct repo_prune_plan *plan, struct repo_prune_stats *stats)
{
	stats->packs_kept = stats->packs_deleted = stats->packs_repacked = 0;
	stats->bytes_repacked = stats->bytes_freed = 0;
	for (uint32_t p = 0; p < plan->n; p++) {
		const struct repo_pack_plan *pack = &plan->packs[p];

		stats->packs_kept += pack->fate == REPO_FATE_KEEP;
		stats->packs_deleted += pack->fate == REPO_FATE_DELETE;
		stats->packs_repacked += pack->fate == REPO_FATE_REPACK;
		if (pack->fate == REPO_FATE_REPACK)
			stats->bytes_repacked += pack->used;
		if (pack->fate != REPO_FATE_KEEP)
			stats->bytes_freed += pack->unused;
	}
}

int repo_prune_plan(struct repo_index *index, const struct repo_walk *walk, uint64_t pack_size,
		    uint64_t room, const struct repo_prune_options *options,
		    struct repo_prune_plan *ret, struct repo_prune_stats *stats,
		    struct cairn_err *err)
{
	cairn_cleanup(repo_prune_plan_done) struct repo_prune_plan plan = {0};
	int rc = repo_index_sort(index, &plan.order, err);

	if (rc < 0)
		return rc;
	plan.n = plan.order.packs;
	plan.packs = cairn_calloc(plan.n, sizeof(*plan.packs));
	if (!plan.packs)
		return cairn_err_nomem(err, "a plan");
	for (uint32_t p = 0; p < plan.n; p++) {
		survey_pack(index, walk, &plan, p, stats);
		if (plan.packs[p].blobs_used == 0)
			plan.packs[p].fate = REPO_FATE_DELETE;
		else if (plan.packs[p].mixed)
			plan.packs[p].fate = REPO_FATE_REPACK;
	}
	rc = choose_wasteful(&plan, options, stats, err);
	if (rc < 0)
		return rc;
	choose_small(index, &plan, pack_size);
	rc = put_off(&plan, room, stats, err);
	if (rc < 0)
		return rc;
	repo_prune_plan_count(&plan, stats);
	*ret = plan;
	plan = (struct repo_prune_plan){0};
	return 0;
}
