/* SPDX-License-Identifier: Apache-2.0 */

/* What an operation made is on disk when it returns: after each, the power goes,
 * and the store must hold what it was made to hold. */
#include <fcntl.h>
#include <unistd.h>

#include "cairntest.h"
#include "store_helper.h"

#define SIZE (4 * MIB)

struct life {
	const char *backend;
	const char *dir;
	struct store *store;
};

static void open_it(struct life *life)
{
	struct cairn_err err = {0};

	assert_ok(pool_store_open(life->backend, life->dir, true, &life->store, &err), &err);
}

static void power_cut(struct life *life)
{
	pool_store_close(life->store);
	life->store = NULL;
	assert_true(scratchfs_power_cut());
	open_it(life);
}

static uint64_t size_of(struct life *life, struct store_ref ref)
{
	struct cairn_err err = {0};
	uint64_t size = 0;

	assert_ok(pool_store_size(life->store, ref, &size, &err), &err);
	return size;
}

static void live(const char *backend, enum scratchfs_kind kind)
{
	struct life life = {.backend = backend, .dir = scratchfs_make(kind, 512 * MIB)};
	struct cairn_err err = {0};

	if (!life.dir)
		skip();
	open_it(&life);
	assert_ok(pool_store_volume_create(life.store, "vol-1", SIZE, &err), &err);
	power_cut(&life);
	assert_int_equal(size_of(&life, volume_ref("vol-1")), SIZE);

	fill_at(life.store, "vol-1", MIB, MIB, 7); /* nobody syncs this */
	assert_ok(pool_store_snapshot_cut(life.store, "vol-1", "snap-1", SIZE, &err), &err);
	power_cut(&life);
	assert_int_equal(size_of(&life, snapshot_ref("snap-1")), SIZE);
	assert_int_equal(byte_at(life.store, snapshot_ref("snap-1"), MIB), 7);
	assert_int_equal(byte_at(life.store, snapshot_ref("snap-1"), 2 * MIB - 1), 7);
	assert_int_equal(byte_at(life.store, snapshot_ref("snap-1"), 2 * MIB), 0);

	assert_ok(pool_store_volume_clone(life.store, "vol-2", "snap-1", SIZE, 2 * SIZE, &err),
		  &err);
	power_cut(&life);
	assert_int_equal(size_of(&life, volume_ref("vol-2")), 2 * SIZE);
	assert_int_equal(byte_at(life.store, volume_ref("vol-2"), MIB), 7);

	assert_ok(pool_store_volume_resize(life.store, "vol-2", 3 * SIZE, &err), &err);
	power_cut(&life);
	assert_int_equal(size_of(&life, volume_ref("vol-2")), 3 * SIZE);

	fill_at(life.store, "vol-2", MIB, MIB, 9);
	assert_ok(replace(life.store, "vol-2", "snap-1", SIZE, 3 * SIZE, &err), &err);
	power_cut(&life);
	assert_int_equal(size_of(&life, volume_ref("vol-2")), 3 * SIZE);
	assert_int_equal(byte_at(life.store, volume_ref("vol-2"), MIB), 7);
	assert_ok(pool_store_volume_sweep(life.store, "vol-2", &err), &err);
	power_cut(&life);
	assert_int_equal(byte_at(life.store, volume_ref("vol-2"), MIB), 7);

	assert_ok(pool_store_remove(life.store, snapshot_ref("snap-1"), &err), &err);
	assert_ok(pool_store_remove(life.store, volume_ref("vol-1"), &err), &err);
	power_cut(&life);
	assert_code(pool_store_size(life.store, snapshot_ref("snap-1"), &(uint64_t){0}, &err),
		    CAIRN_NOT_FOUND);
	assert_code(pool_store_size(life.store, volume_ref("vol-1"), &(uint64_t){0}, &err),
		    CAIRN_NOT_FOUND);
	assert_int_equal(byte_at(life.store, volume_ref("vol-2"), MIB), 7);
	pool_store_close(life.store);
	scratchfs_remove();
}

static void a_copy_store_survives_power_cuts(void **state)
{
	(void)state;
	live("copy", SCRATCHFS_XFS);
}

static void a_reflink_store_survives_power_cuts(void **state)
{
	(void)state;
	live("reflink", SCRATCHFS_XFS);
}

static void a_reflink_store_on_btrfs_survives_power_cuts(void **state)
{
	(void)state;
	live("reflink", SCRATCHFS_BTRFS);
}

static void a_btrfs_store_survives_power_cuts(void **state)
{
	(void)state;
	live("btrfs", SCRATCHFS_BTRFS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_store_survives_power_cuts),
		cmocka_unit_test(a_reflink_store_survives_power_cuts),
		cmocka_unit_test(a_reflink_store_on_btrfs_survives_power_cuts),
		cmocka_unit_test(a_btrfs_store_survives_power_cuts),
	};

	if (!scratchfs_make(SCRATCHFS_XFS, 512 * MIB))
		return 77;
	scratchfs_remove();
	return cmocka_run_group_tests_name("pool/store power cut", tests, NULL, NULL);
}
