/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "backup/backup_record.h"
#include "backup/chunk.h"
#include "backup/image_metadata.h"
#include "backup/progress.h"
#include "backup/worker_pool.h"
#include "backup/zeros.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "repo/repo_snapshot.h"

#define KIB 1024ULL
#define MIB (1024 * KIB)

static void a_run_of_zeros_is_cut_to_few_lengths(void **state)
{
	static const struct {
		uint64_t run;
		uint64_t want[8]; /* ends with 0 */
	} cases[] = {
		{4 * KIB, {4 * KIB}},
		{512 * KIB, {512 * KIB}},
		{3 * MIB, {512 * KIB, 2 * MIB, 512 * KIB}},
		{20 * MIB + 512, {512 * KIB, 8 * MIB, 8 * MIB, 2 * MIB, MIB, 512 * KIB + 512}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t run = cases[i].run;
		bool sparse = false;

		for (size_t k = 0; cases[i].want[k]; k++) {
			uint64_t length = backup_zeros_cut(run, 8 * MIB, &sparse);

			assert_int_equal(length, cases[i].want[k]);
			run -= length;
		}
		assert_int_equal(run, 0);
		assert_int_equal(sparse, cases[i].run >= ZEROS_SPARSE);
	}
}

static void only_the_first_run_gives_the_sparse_chunk(void **state)
{
	bool sparse = false;

	(void)state;
	assert_int_equal(backup_zeros_cut(16 * MIB, 8 * MIB, &sparse), ZEROS_SPARSE);
	assert_int_equal(backup_zeros_cut(16 * MIB, 8 * MIB, &sparse), 8 * MIB);
	assert_int_equal(backup_zeros_longest(512ULL << 30), 8 * MIB);
	assert_int_equal(backup_zeros_longest(1ULL << 50), 64 * MIB);
}

static void ids_of_zeros_are_those_of_their_bytes(void **state)
{
	cairn_cleanup(backup_zeros_freep) struct zeros *zeros = NULL;
	struct cairn_err err = {0};
	struct repo_id id;
	uint8_t some[1536] = {0};

	(void)state;
	assert_ok(backup_zeros_new(&zeros, &err), &err);
	assert_true(repo_id_of(some, sizeof(some), &id));
	for (int i = 0; i < 2; i++)
		assert_memory_equal(backup_zeros_id(zeros, sizeof(some)), &id, sizeof(id));
	assert_null(backup_zeros_id(zeros, 0));
	assert_null(backup_zeros_id(zeros, 100));
	assert_null(backup_zeros_id(zeros, ZEROS_MAX + 512));
}

static void runs_of_zeros_join(void **state)
{
	cairn_cleanup(backup_chunk_map_done) struct chunk_map map = {0};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(backup_chunk_map_add(&map, CHUNK_ZERO, NULL, 4096, &err), &err);
	assert_ok(backup_chunk_map_add(&map, CHUNK_ZERO, NULL, 4 * (uint64_t)CHUNK_ZERO_MAX, &err),
		  &err);
	assert_int_equal(map.n, 5);
	assert_int_equal(map.at[0].length, CHUNK_ZERO_MAX);
	assert_int_equal(map.at[4].length, 4096);
	assert_ok(backup_chunk_map_check(&map, &err), &err);
}

static void chunks_of_others_are_told_from_ours(void **state)
{
	static const struct {
		uint32_t lengths[4];
		int code;
	} cases[] = {
		{{4096, 4096, 8192, 100}, 0},
		{{8192, 5000}, 0}, /* the last one may be a fraction */
		{{4096, 8192}, CAIRN_PRECONDITION},
		{{4096, 5000}, CAIRN_PRECONDITION},
		{{4096, 8192, 4096}, CAIRN_PRECONDITION},
		{{12288, 4096}, CAIRN_PRECONDITION},
		{{2048, 4096}, CAIRN_PRECONDITION},
		{{16 << 20}, CAIRN_PRECONDITION},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_cleanup(backup_chunk_map_done) struct chunk_map map = {0};
		uint8_t id[CHUNK_ID_BYTES] = {1};

		for (size_t k = 0; k < 4 && cases[i].lengths[k]; k++)
			assert_int_equal(backup_chunk_map_add(&map, CHUNK_KEPT, id,
							      cases[i].lengths[k], NULL),
					 0);
		assert_code(backup_chunk_map_check(&map, NULL), cases[i].code);
	}
}

static void paths_are_names_that_a_directory_can_have(void **state)
{
	static const char *const cases[][2] = {
		{"data", "/data"}, {"a/b", "/a%2Fb"}, {"50%", "/50%25"},
		{".", "/%2E"},     {"..", "/%2E%2E"}, {"...", "/..."},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		cairn_auto_free char *path = backup_path_of(cases[i][0]);

		assert_string_equal(path, cases[i][1]);
	}
}

static void tags_tell_what_a_backup_is_of(void **state)
{
	struct backup_record record = {.volume = "a=b",
				       .volume_id = "vol-1",
				       .snapshot = "s",
				       .snapshot_id = "snap-1",
				       .mode = "changed",
				       .bytes_read = 4096};
	struct repo_snapshot snapshot = {.n_tags = BACKUP_TAGS};
	const char *tags[BACKUP_TAGS];
	struct backup_tags made = {0};
	struct cairn_err err = {0};
	struct backup_record got;

	(void)state;
	assert_ok(backup_tags_make(&record, &made, &err), &err);
	memcpy(tags, made.at, sizeof(tags));
	snapshot.tags = tags;
	snapshot.n_tags = made.n;
	got = backup_record_of(&snapshot);
	assert_true(got.ours);
	assert_string_equal(got.volume, "a=b");
	assert_string_equal(got.snapshot_id, "snap-1");
	assert_string_equal(got.mode, "changed");
	assert_int_equal(got.bytes_read, 4096);
	snapshot.n_tags = 0;
	got = backup_record_of(&snapshot);
	assert_false(got.ours);
	assert_string_equal(got.volume, "");
	backup_tags_done(&made);
}

static void metadata_comes_back(void **state)
{
	struct metadata m = {.volume_id = "vol-1",
			     .volume_name = "größe",
			     .snapshot_id = "snap-1",
			     .size = 1ULL << 50,
			     .merge_hand = 8 * MIB,
			     .kubernetes = "{\"pvc\":{\"kind\":\"PersistentVolumeClaim\"}}"};
	struct cairn_err err = {0};
	struct metadata got;
	char *text;
	size_t n;

	(void)state;
	assert_ok(backup_metadata_write(&m, &text, &n, &err), &err);
	assert_ok(backup_metadata_parse(text, n, &got, &err), &err);
	assert_string_equal(got.volume_name, m.volume_name);
	assert_string_equal(got.kubernetes, m.kubernetes);
	assert_int_equal(got.size, m.size);
	assert_int_equal(got.merge_hand, m.merge_hand);
	assert_null(got.parent_backup);
	backup_metadata_done(&got);
	free(text);
	m.kubernetes = "no json";
	assert_code(backup_metadata_write(&m, &text, &n, NULL), CAIRN_INVALID);
	assert_code(backup_metadata_parse("{\"version\":9}", 13, &got, NULL), CAIRN_UNIMPLEMENTED);
	assert_code(backup_metadata_parse("{}", 2, &got, NULL), CAIRN_DATA_LOSS);
}

/* A backup whose metadata nobody reads again could not be restored. */
static void metadata_that_could_not_be_read_is_not_written(void **state)
{
	cairn_auto_free char *objects = cairn_alloc(METADATA_MAX + 16);
	struct metadata m = {.volume_id = "vol-1", .kubernetes = objects};
	size_t n = 0;
	char *text = NULL;

	(void)state;
	assert_non_null(objects);
	memset(objects, 'x', METADATA_MAX + 16);
	memcpy(objects, "[\"", 2);
	memcpy(objects + METADATA_MAX + 13, "\"]", 3);
	assert_code(backup_metadata_write(&m, &text, &n, NULL), CAIRN_RANGE);
	assert_null(text);
}

/* ---- teams -------------------------------------------------------------- */

struct adding {
	size_t next;
	size_t fail_at;
	_Atomic uint64_t sum;
};

static bool take(void *arg, struct worker_task *task)
{
	struct adding *adding = arg;

	if (adding->next == 1000)
		return false;
	*task = (struct worker_task){.first = adding->next++, .bytes = 1};
	return true;
}

static int work(void *arg, void *worker, const struct worker_task *task, struct cairn_err *err)
{
	struct adding *adding = arg;

	(void)worker;
	adding->sum += task->first;
	return task->first == adding->fail_at ? cairn_err_set(err, CAIRN_INVALID, "as told") : 0;
}

static bool stop_at_once(void *arg)
{
	(void)arg;
	return true;
}

static void a_team_does_all_the_work_or_tells_the_first_failure(void **state)
{
	struct adding adding = {.fail_at = SIZE_MAX};
	struct worker_pool pool = {.take = take, .work = work, .arg = &adding, .total = 1000};
	struct backup_progress stopping = {.cancelled = stop_at_once};
	struct cairn_err err = {0};

	(void)state;
	assert_ok(backup_worker_pool_run(&pool, 4, &err), &err);
	assert_int_equal(adding.sum, 999 * 1000 / 2);
	adding = (struct adding){.fail_at = 10};
	assert_code(backup_worker_pool_run(&pool, 4, &err), CAIRN_INVALID);
	assert_string_equal(err.msg, "as told");
	adding = (struct adding){.fail_at = SIZE_MAX};
	pool.progress = &stopping;
	assert_code(backup_worker_pool_run(&pool, 4, &err), CAIRN_CANCELLED);
	assert_int_equal(adding.sum, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_of_zeros_is_cut_to_few_lengths),
		cmocka_unit_test(only_the_first_run_gives_the_sparse_chunk),
		cmocka_unit_test(ids_of_zeros_are_those_of_their_bytes),
		cmocka_unit_test(runs_of_zeros_join),
		cmocka_unit_test(chunks_of_others_are_told_from_ours),
		cmocka_unit_test(paths_are_names_that_a_directory_can_have),
		cmocka_unit_test(tags_tell_what_a_backup_is_of),
		cmocka_unit_test(metadata_comes_back),
		cmocka_unit_test(metadata_that_could_not_be_read_is_not_written),
		cmocka_unit_test(a_team_does_all_the_work_or_tells_the_first_failure),
	};

	return cmocka_run_group_tests_name("backup/parts", tests, NULL, NULL);
}
