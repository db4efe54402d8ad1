/* SPDX-License-Identifier: Apache-2.0 */

/* How chunks of different sizes fare over a row of incremental backups: the
 * planner that backups use, fed with change sets of three workloads, against
 * chunks of one fixed size. Data is taken as incompressible. What a chunk costs
 * besides its bytes was measured on real repositories: 32 bytes of envelope and
 * 41 of pack header, 40 of index, and 35 in the tree of every snapshot.
 *
 * Usage: bench-chunks [ROUNDS [ALLOCATED [BUDGET]]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/changed_bitmap.h"
#include "backup/plan.h"
#include "base/err.h"
#include "base/num.h"
#include "block/extent.h"

#define BLOCK      4096ULL
#define PER_STORED (32 + 41)
#define PER_INDEX  40
#define PER_TREE   35

enum workload { UNIFORM, HOT, APPEND };
static const char *const workload_names[] = {"uniform", "hot 5 %", "append"};

static uint64_t random_state;

static uint64_t random_below(uint64_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 11) % n;
}

/* A volume of four times what is allocated at its front. */
struct volume {
	uint64_t size;
	uint64_t allocated;
	uint64_t end; /* where appending goes on */
};

static void change(struct changed_bitmap *marks, struct volume *volume, enum workload workload,
		   uint64_t blocks)
{
	uint64_t all = volume->allocated / BLOCK;
	uint64_t hot = all / 20;

	for (uint64_t i = 0; i < blocks; i++) {
		struct block_extent extent = {.length = BLOCK};

		switch (workload) {
		case UNIFORM:
			extent.offset = random_below(all) * BLOCK;
			break;
		case HOT: /* spread over the volume in runs of 64 KiB */
			if (random_below(100) < 95) {
				uint64_t block = random_below(hot);

				extent.offset = (block / 16 * 16 * 20 + block % 16) * BLOCK;
			} else {
				extent.offset = random_below(all) * BLOCK;
			}
			break;
		case APPEND:
			extent.offset = volume->end;
			volume->end += BLOCK;
			break;
		}
		if (extent.offset < volume->size)
			backup_changed_bitmap_add(marks, &extent);
	}
}

static uint64_t marked_bytes(const struct changed_bitmap *marks)
{
	return backup_changed_bitmap_count(marks, 0, marks->size).marked << marks->shift;
}

struct totals {
	uint64_t changed, stored, tree, index, chunks, leaf;
};

static void give_ids(struct plan *plan)
{
	for (size_t i = 0; i < plan->map.n; i++)
		if (plan->map.at[i].kind == CHUNK_READ)
			plan->map.at[i].kind = CHUNK_KEPT;
}

static int round_of(struct plan *plan, const struct plan_spec *spec, struct totals *totals,
		    struct totals *last)
{
	struct cairn_err err = {0};
	struct plan next;

	if (backup_plan_make(spec, &next, &err)) {
		fprintf(stderr, "chunks: %s\n", err.msg);
		return -1;
	}
	*last = (struct totals){
		.changed = marked_bytes(spec->marks),
		.stored = next.read_bytes + next.read_chunks * (PER_STORED + PER_INDEX) +
			  next.chunks * PER_TREE,
		.tree = next.chunks * PER_TREE,
		.index = next.read_chunks * PER_INDEX,
		.chunks = next.chunks,
		.leaf = next.leaf,
	};
	totals->changed += last->changed;
	totals->stored += last->stored;
	totals->index += last->index;
	backup_plan_done(plan);
	*plan = next;
	give_ids(plan);
	return 0;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static int run(enum workload workload, const char *name, uint64_t fixed, uint64_t allocated,
	       uint64_t rounds, uint64_t budget)
{
	struct volume volume = {4 * allocated, allocated, allocated};
	struct block_extent front = {.length = allocated};
	struct totals full;
	struct totals first = {0};
	struct totals last = {0};
	struct totals sum = {0};
	struct plan plan = {0};
	int rc = 0;

	random_state = 88172645463325252ULL;
	for (uint64_t i = 0; i <= rounds && !rc; i++) {
		cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks = NULL;
		struct plan_spec spec = {.fixed = fixed, .budget = budget, .hand = plan.hand};

		if (backup_changed_bitmap_new(volume.size, &marks, NULL))
			return -1;
		if (i == 0)
			backup_changed_bitmap_add(marks, &front);
		else
			change(marks, &volume, workload, allocated / BLOCK / 100);
		spec.mode = i ? PLAN_CHANGED : PLAN_ALLOCATED;
		spec.parent = i ? &plan.map : NULL;
		spec.marks = marks;
		rc = round_of(&plan, &spec, &sum, &last);
		if (i == 0) {
			full = last;
			sum = (struct totals){.index = full.index};
		}
		if (i == 1)
			first = last;
	}
	if (!rc)
		printf("| %-8s | %-8s | %7.1f | %7.1f | %7.1f | %5.1f | %7" PRIu64
		       " | %5.1f | %5.1f |\n",
		       workload_names[workload], name, mib(full.stored), mib(first.stored),
		       mib(last.stored), (double)sum.stored / (double)sum.changed, last.chunks,
		       mib(sum.index), mib(last.tree));
	backup_plan_done(&plan);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		uint64_t fixed;
	} kinds[] = {{"cairn", 0}, {"64 KiB", 64 << 10}, {"1 MiB", 1 << 20}};
	uint64_t rounds = 10;
	uint64_t allocated = 2ULL << 30;
	uint64_t budget = 0;

	if ((argc > 1 && cairn_parse_u64(argv[1], &rounds, NULL)) ||
	    (argc > 2 && cairn_parse_size(argv[2], &allocated, NULL)) ||
	    (argc > 3 && cairn_parse_u64(argv[3], &budget, NULL)))
		return 2;
	printf("| workload | chunks   | full    | first   | last    | x     | chunks  | index | tree  "
	       "|\n|---|---|---|---|---|---|---|---|---|\n");
	for (int w = UNIFORM; w <= APPEND; w++)
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			if (run((enum workload)w, kinds[k].name, kinds[k].fixed, allocated, rounds,
				budget))
				return 1;
	return 0;
}
