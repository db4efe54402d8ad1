/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "backup/changed_bitmap.h"
#include "backup/chunk.h"
#include "backup/plan.h"
#include "base/mem.h"
#include "block/extent.h"

#define KIB 1024ULL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

static uint64_t seed = 1;

static uint64_t below(uint64_t n)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % n;
}

static struct changed_bitmap *marks_of(uint64_t size)
{
	struct changed_bitmap *marks = NULL;
	struct cairn_err err = {0};

	assert_ok(backup_changed_bitmap_new(size, &marks, &err), &err);
	return marks;
}

static void add(struct changed_bitmap *marks, uint64_t offset, uint64_t length, bool zero)
{
	backup_changed_bitmap_add(marks, &(struct block_extent){offset, length, zero});
}

/* Gives every chunk that was read an id of its own, as if it had been stored. */
static void store(struct chunk_map *map, uint32_t *next_id)
{
	for (size_t i = 0; i < map->n; i++) {
		if (map->at[i].kind != CHUNK_READ)
			continue;
		map->at[i].kind = CHUNK_KEPT;
		memset(map->at[i].id, 0, sizeof(map->at[i].id));
		memcpy(map->at[i].id, next_id, sizeof(*next_id));
		(*next_id)++;
	}
}

static struct plan full_of(uint64_t size, uint64_t allocated, uint32_t *next_id)
{
	cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks = marks_of(size);
	struct cairn_err err = {0};
	struct plan plan = {0};

	add(marks, 0, allocated, false);
	assert_ok(backup_plan_make(&(struct plan_spec){.mode = PLAN_ALLOCATED, .marks = marks},
				   &plan, &err),
		  &err);
	store(&plan.map, next_id);
	return plan;
}

static void marks_widen_changes_and_narrow_zeros(void **state)
{
	cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks =
		marks_of(MIB + 512);
	struct backup_changed_bitmap_count count;

	(void)state;
	add(marks, 1, 1, false);
	assert_int_equal(backup_changed_bitmap_count(marks, 0, 4096).marked, 1);
	assert_true(backup_changed_bitmap_any(marks, 0, 1));
	assert_true(backup_changed_bitmap_any(marks, 4095, MIB));
	assert_false(backup_changed_bitmap_any(marks, 4096, MIB));
	assert_false(backup_changed_bitmap_any(marks, 4096, 0));
	add(marks, 8 * KIB + 1, 12 * KIB, true); /* whole granules: two of four */
	count = backup_changed_bitmap_count(marks, 8 * KIB, 16 * KIB);
	assert_int_equal(count.granules, 4);
	assert_int_equal(count.marked, 4);
	assert_int_equal(count.zero, 2);
	add(marks, 12 * KIB, 1, false); /* written over */
	assert_int_equal(backup_changed_bitmap_count(marks, 8 * KIB, 16 * KIB).zero, 1);
	add(marks, MIB, UINT64_MAX, true); /* past the end, up to the last granule */
	count = backup_changed_bitmap_count(marks, MIB, MIB);
	assert_int_equal(count.granules, 1);
	assert_int_equal(count.zero, 1);
	add(marks, 2 * MIB, 4096, false);
	assert_int_equal(backup_changed_bitmap_count(marks, 0, 2 * MIB).marked, 6);
}

static void memory_of_marks_is_bounded(void **state)
{
	cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks =
		marks_of(1ULL << 50);

	(void)state;
	assert_true((marks->size >> marks->shift) <= MARKS_GRANULES_MAX);
	add(marks, (1ULL << 50) - 1, 1, false);
	assert_int_equal(backup_changed_bitmap_count(marks, (1ULL << 50) - 4096, 4096).marked, 1);
}

static void the_base_follows_the_data(void **state)
{
	static const struct {
		uint64_t bytes;
		uint64_t base;
	} cases[] = {
		{0, 16 * KIB},         {2 * GIB, 16 * KIB},   {4 * GIB, 32 * KIB},
		{64 * GIB, 512 * KIB}, {1024 * GIB, 8 * MIB}, {UINT64_MAX, 8 * MIB},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(backup_plan_base(cases[i].bytes, PLAN_BUDGET), cases[i].base);
}

static void a_full_backup_reads_what_is_allocated(void **state)
{
	uint32_t next_id = 1;
	struct plan plan = full_of(GIB, 20 * KIB, &next_id);

	(void)state;
	assert_int_equal(plan.map.size, GIB);
	assert_int_equal(plan.read_bytes, 32 * KIB);
	assert_int_equal(plan.chunks, 2);
	assert_int_equal(plan.map.n, 3);
	assert_int_equal(plan.map.at[2].kind, CHUNK_ZERO);
	backup_plan_done(&plan);
}

static void one_changed_block_cuts_its_chunk_as_buddies(void **state)
{
	cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks = marks_of(MIB);
	uint32_t next_id = 1;
	struct plan base = full_of(MIB, MIB, &next_id);
	struct cairn_err err = {0};
	struct plan plan;

	(void)state;
	add(marks, 20 * KIB, 4 * KIB, false);
	assert_ok(backup_plan_make(&(struct plan_spec){.mode = PLAN_CHANGED,
						       .parent = &base.map,
						       .marks = marks},
				   &plan, &err),
		  &err);
	assert_int_equal(plan.read_bytes, 16 * KIB);
	assert_int_equal(plan.read_chunks, 3);
	assert_int_equal(plan.map.at[0].kind, CHUNK_KEPT);
	assert_int_equal(plan.map.at[1].length, 4 * KIB);
	assert_int_equal(plan.map.at[2].length, 4 * KIB);
	assert_int_equal(plan.map.at[3].length, 8 * KIB);
	assert_int_equal(plan.map.at[4].kind, CHUNK_KEPT);
	assert_memory_equal(plan.map.at[4].id, base.map.at[2].id, CHUNK_ID_BYTES);
	backup_plan_done(&plan);
	backup_plan_done(&base);
}

static void a_parent_that_is_longer_is_refused(void **state)
{
	cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks = marks_of(MIB);
	uint32_t next_id = 1;
	struct plan base = full_of(2 * MIB, MIB, &next_id);
	struct plan plan;

	(void)state;
	assert_code(backup_plan_make(&(struct plan_spec){.mode = PLAN_CHANGED,
							 .parent = &base.map,
							 .marks = marks},
				     &plan, NULL),
		    CAIRN_PRECONDITION);
	backup_plan_done(&base);
}

/* ---- truth -------------------------------------------------------------- */

#define UNIT 4096U

/* What each unit holds: a number that changes with every write; 0 is zeros. What
 * a chunk holds is remembered by its id. */
struct truth {
	uint64_t units;
	uint32_t *now;
	uint32_t *stored; /* by id: where in `content` it begins */
	uint32_t *content;
	size_t used;
	size_t room;
	uint32_t next_id;
	uint32_t next_write;
};

static void remember(struct truth *truth, struct chunk_map *map)
{
	uint64_t unit = 0;

	for (size_t i = 0; i < map->n; i++) {
		uint64_t n = (map->at[i].length + UNIT - 1) / UNIT;

		if (map->at[i].kind == CHUNK_READ) {
			truth->stored[truth->next_id] = (uint32_t)truth->used;
			assert_true(truth->used + n <= truth->room);
			memcpy(truth->content + truth->used, truth->now + unit,
			       n * sizeof(uint32_t));
			truth->used += n;
			map->at[i].kind = CHUNK_KEPT;
			memcpy(map->at[i].id, &truth->next_id, sizeof(uint32_t));
			truth->next_id++;
		}
		unit += n;
	}
}

static void assert_restores(const struct truth *truth, const struct chunk_map *map)
{
	uint64_t unit = 0;
	struct cairn_err err = {0};

	assert_ok(backup_chunk_map_check(map, &err), &err);
	for (size_t i = 0; i < map->n; i++) {
		uint64_t n = (map->at[i].length + UNIT - 1) / UNIT;
		uint32_t id;

		memcpy(&id, map->at[i].id, sizeof(id));
		for (uint64_t k = 0; k < n; k++) {
			uint32_t want = truth->now[unit + k];
			uint32_t got = map->at[i].kind == CHUNK_ZERO
					       ? 0
					       : truth->content[truth->stored[id] + k];

			if (got != want)
				fail_msg("unit %llu holds %u, not %u",
					 (unsigned long long)(unit + k), got, want);
		}
		unit += n;
	}
	assert_int_equal(unit, truth->units);
}

static void write_some(struct truth *truth, struct changed_bitmap *marks, uint64_t limit)
{
	uint64_t writes = below(30);

	for (uint64_t i = 0; i < writes; i++) {
		uint64_t first = below(limit);
		uint64_t n = 1 + below(below(10) == 0 ? 5000 : 12);
		bool zero = below(4) == 0;

		n = n < limit - first ? n : limit - first;
		for (uint64_t k = 0; k < n; k++)
			truth->now[first + k] = zero ? 0 : truth->next_write;
		truth->next_write++;
		add(marks, first * UNIT, n * UNIT, zero);
	}
}

/* Marks what is not zero. */
static void mark_allocated(const struct truth *truth, struct changed_bitmap *marks)
{
	for (uint64_t i = 0; i < truth->units; i++)
		if (truth->now[i])
			add(marks, i * UNIT, UNIT, false);
}

static void run_random(uint64_t from, uint64_t budget)
{
	uint64_t size = 40 * MIB - 3584; /* the last unit is a fraction */
	struct truth truth = {
		.units = (size + UNIT - 1) / UNIT,
		.room = 4000000,
		.next_id = 1,
		.next_write = 1,
	};
	struct plan plan = {0};

	seed = from;
	truth.now = cairn_calloc(truth.units, sizeof(uint32_t));
	truth.stored = cairn_calloc(2000000, sizeof(uint32_t));
	truth.content = cairn_calloc(truth.room, sizeof(uint32_t));
	for (unsigned round = 0; round < 60; round++) {
		/* The volume grows once. */
		uint64_t now = round < 20 ? size / 2 + 512 : size;
		cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks =
			marks_of(now);
		struct plan_spec spec = {.parent = round ? &plan.map : NULL,
					 .marks = marks,
					 .budget = budget,
					 .hand = plan.hand};
		struct cairn_err err = {0};
		struct plan next;

		truth.units = (now + UNIT - 1) / UNIT;
		write_some(&truth, marks, truth.units);
		if (round == 20)
			add(marks, size / 2 + 512, size, false);
		spec.mode = PLAN_CHANGED;
		if (round % 15 == 0) {
			backup_changed_bitmap_freep(&marks);
			spec.marks = marks = marks_of(now);
			spec.mode = PLAN_ALLOCATED;
			mark_allocated(&truth, marks);
		}
		assert_ok(backup_plan_make(&spec, &next, &err), &err);
		assert_int_equal(next.map.size, now);
		remember(&truth, &next.map);
		assert_restores(&truth, &next.map);
		backup_plan_done(&plan);
		plan = next;
	}
	backup_plan_done(&plan);
	free(truth.now);
	free(truth.stored);
	free(truth.content);
}

static void every_plan_holds_the_volume_as_it_is(void **state)
{
	(void)state;
	for (uint64_t i = 1; i < 6; i++)
		run_random(i, 0);
}

static void a_small_budget_changes_cuts_and_not_content(void **state)
{
	(void)state;
	for (uint64_t i = 10; i < 15; i++)
		run_random(i, 300);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_widen_changes_and_narrow_zeros),
		cmocka_unit_test(memory_of_marks_is_bounded),
		cmocka_unit_test(the_base_follows_the_data),
		cmocka_unit_test(a_full_backup_reads_what_is_allocated),
		cmocka_unit_test(one_changed_block_cuts_its_chunk_as_buddies),
		cmocka_unit_test(a_parent_that_is_longer_is_refused),
		cmocka_unit_test(every_plan_holds_the_volume_as_it_is),
		cmocka_unit_test(a_small_budget_changes_cuts_and_not_content),
	};

	return cmocka_run_group_tests_name("backup/plan", tests, NULL, NULL);
}
