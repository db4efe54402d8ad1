/* SPDX-License-Identifier: Apache-2.0 */

/* Which backup a new one builds on, where nobody tells the lineage of snapshots. */

#include "cairntest.h"

#include "repofix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/create.h"
#include "backup/source.h"
#include "base/num.h"
#include "block/extent.h"
#include "pool/store/store.h"

#define SIZE (256U << 10)

/* A driver that counts generations: asked for what changed since a later snapshot, it
 * finds nothing that is newer. */
struct driver {
	struct backup_source base;
	uint8_t fill;   /* every byte of the snapshot */
	char asked[32]; /* against which snapshot; "": not asked */
	char id[32];
};

struct driver_reader {
	struct store_reader base;
	uint8_t fill;
};

static int read_all(struct store_reader *reader, uint64_t offset, void *buf, size_t n,
		    size_t *ret_n, struct cairn_err *err)
{
	(void)offset;
	(void)err;
	memset(buf, ((struct driver_reader *)reader)->fill, n);
	*ret_n = n;
	return 0;
}

static void free_reader(struct store_reader *reader)
{
	free(reader);
}

static const struct store_reader_ops reader_ops = {.read = read_all, .free = free_reader};

static int open_reader(struct backup_source *source, struct store_reader **ret,
		       struct cairn_err *err)
{
	struct driver_reader *reader = calloc(1, sizeof(*reader));

	(void)err;
	assert_non_null(reader);
	reader->base.ops = &reader_ops;
	reader->fill = ((struct driver *)source)->fill;
	*ret = &reader->base;
	return 0;
}

static int tell_all(struct block_sink sink, struct cairn_err *err)
{
	return sink.emit(sink.arg, &(struct block_extent){.length = SIZE}, err);
}

static int changed(struct backup_source *source, const char *base, struct block_sink sink,
		   struct cairn_err *err)
{
	struct driver *driver = (struct driver *)source;
	static const char prefix[] = "snap-";
	uint64_t when;

	snprintf(driver->asked, sizeof(driver->asked), "%s", base);
	assert_memory_equal(base, prefix, strlen(prefix));
	assert_ok(cairn_parse_u64(base + strlen(prefix), &when, err), err);
	return when < source->created_ns ? tell_all(sink, err) : 0;
}

static int allocated(struct backup_source *source, struct block_sink sink, struct cairn_err *err)
{
	(void)source;
	return tell_all(sink, err);
}

static void close_nothing(struct backup_source *source)
{
	(void)source;
}

static const struct backup_source_ops driver_ops = {.name = "driver",
						    .close = close_nothing,
						    .reader_open = open_reader,
						    .changed = changed,
						    .allocated = allocated};

/* Backs up the snapshot of that time; its bytes are all `fill`. */
static struct backup_result back_up(struct repofix *fix, struct driver *driver, unsigned when,
				    uint8_t fill)
{
	struct backup_create_options options = {.version = "test"};
	struct backup_result result = {0};
	struct cairn_err err = {0};

	*driver = (struct driver){.fill = fill};
	snprintf(driver->id, sizeof(driver->id), "snap-%u", when);
	driver->base = (struct backup_source){.ops = &driver_ops,
					      .volume_id = "vol",
					      .volume_name = "data",
					      .snapshot_id = driver->id,
					      .snapshot_name = driver->id,
					      .size = SIZE,
					      .created_ns = when,
					      .dated = true};
	repofix_open(fix, REPO_LOCK_SHARED);
	assert_ok(backup_create(fix->repo, &driver->base, &options, &result, &err), &err);
	return result;
}

static void what_changed_is_asked_against_an_older_snapshot_only(void **state)
{
	struct repofix *fix = *state;
	struct backup_result oldest, between;
	struct driver driver;

	oldest = back_up(fix, &driver, 100, 1);
	assert_string_equal(driver.asked, "");
	back_up(fix, &driver, 300, 3);
	assert_string_equal(driver.asked, "snap-100");
	between = back_up(fix, &driver, 200, 2);
	assert_string_equal(driver.asked, "snap-100");
	assert_true(repo_id_equal(&between.parent, &oldest.id));
	assert_int_equal(between.mode, BACKUP_CHANGED);
	assert_int_equal(between.bytes_read, SIZE);
}

static void one_that_is_older_than_all_is_read_whole(void **state)
{
	struct repofix *fix = *state;
	struct backup_result first, result;
	struct driver driver;

	first = back_up(fix, &driver, 100, 1);
	result = back_up(fix, &driver, 50, 2);
	assert_string_equal(driver.asked, "");
	assert_int_equal(result.mode, BACKUP_ALLOCATED);
	assert_int_equal(result.bytes_read, SIZE);
	assert_true(result.has_parent); /* for its cuts */
	assert_true(repo_id_equal(&result.parent, &first.id));
}

static void the_same_snapshot_again_costs_nothing(void **state)
{
	struct repofix *fix = *state;
	struct backup_result result;
	struct driver driver;

	back_up(fix, &driver, 100, 1);
	result = back_up(fix, &driver, 100, 1);
	assert_string_equal(driver.asked, "snap-100");
	assert_int_equal(result.mode, BACKUP_CHANGED);
	assert_int_equal(result.bytes_read, 0);
}

#define with_repo(test) cmocka_unit_test_setup_teardown(test, repofix_setup, repofix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		with_repo(what_changed_is_asked_against_an_older_snapshot_only),
		with_repo(one_that_is_older_than_all_is_read_whole),
		with_repo(the_same_snapshot_again_costs_nothing),
	};

	return cmocka_run_group_tests_name("backup/parent", tests, NULL, NULL);
}
