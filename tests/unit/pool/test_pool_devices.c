/* SPDX-License-Identifier: Apache-2.0 */

/* A pool's volumes as devices, beside what others do with them. */

#include "cairntest.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "blockdev.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/ids.h"
#include "pool/catalogue/records.h"
#include "pool/cleanup_queue.h"
#include "pool/pool_impl.h"
#include "pool/store/store.h"
#include "poolfix.h"

#define ROUNDS    12
#define READ_ONLY 4

static void make(struct poolfix *fix, const char *name, uint64_t size, struct pool_volume *ret)
{
	struct pool_volume_spec spec = {.name = name, .size = size};
	struct cairn_err err = {0};

	assert_ok(pool_volume_create(fix->pool, &spec, ret, &err), &err);
}

/* ---- attaching beside deleting ------------------------------------------- */

struct attaching {
	struct pool *pool;
	const char *volume;
	pthread_barrier_t *start;
	int rc;
};

static void *attach_it(void *arg)
{
	struct attaching *self = arg;
	char device[64];

	pthread_barrier_wait(self->start);
	self->rc =
		pool_volume_attach(self->pool, self->volume, false, device, sizeof(device), NULL);
	return NULL;
}

static void what_is_deleted_is_not_attached(void **state)
{
	struct poolfix *fix = *state;

	for (unsigned i = 0; i < ROUNDS; i++) {
		pthread_barrier_t start;
		struct pool_volume volume;
		struct attaching other = {.pool = fix->pool, .volume = volume.id, .start = &start};
		pthread_t thread;
		int deleted;

		make(fix, "v", MIB, &volume);
		pthread_barrier_init(&start, NULL, 2);
		assert_int_equal(pthread_create(&thread, NULL, attach_it, &other), 0);
		pthread_barrier_wait(&start);
		deleted = pool_volume_delete(fix->pool, volume.id, POOL_DELETE_REFUSE, NULL);
		pthread_join(thread, NULL);
		pthread_barrier_destroy(&start);
		assert_false(deleted == 0 && other.rc == 0);
		if (other.rc == 0)
			assert_ok(pool_volume_detach(fix->pool, volume.id, NULL),
				  &(struct cairn_err){0});
		if (deleted != 0)
			assert_code(
				pool_volume_delete(fix->pool, volume.id, POOL_DELETE_REFUSE, NULL),
				0);
	}
}

/* ---- a mounted volume ---------------------------------------------------- */

/* A volume with a mounted filesystem; returns its mount point. */
static const char *mounted_volume(struct poolfix *fix, struct pool_volume *ret, char **ret_path)
{
	struct cairn_err err = {0};
	char device[64];

	make(fix, "v", 64 * MIB, ret);
	assert_ok(pool_volume_path(fix->pool, ret->id, ret_path, &err), &err);
	blockdev_mkfs("ext4", *ret_path);
	assert_ok(pool_volume_attach(fix->pool, ret->id, false, device, sizeof(device), &err),
		  &err);
	return blockdev_mount(device, "mnt");
}

static void take_down(struct poolfix *fix, const char *mount)
{
	struct cairn_err err = {0};

	RUN("umount", mount);
	assert_ok(pool_volume_detach(fix->pool, "v", &err), &err);
	blockdev_done();
}

static void write_unsynced(const char *mount, const char *text)
{
	cairn_auto_fd int fd = -1;
	char path[128];

	snprintf(path, sizeof(path), "%s/file", mount);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static bool snapshot_holds(struct poolfix *fix, const char *snapshot, const char *text)
{
	cairn_cleanup(pool_store_reader_freep) struct store_reader *reader = NULL;
	struct cairn_err err = {0};
	static char data[MIB];
	size_t n = 1;

	assert_ok(pool_snapshot_reader(fix->pool, snapshot, &reader, &err), &err);
	for (uint64_t at = 0; at < 64 * MIB && n > 0; at += n) {
		assert_ok(pool_store_reader_read(reader, at, data, sizeof(data), &n, &err), &err);
		if (memmem(data, n, text, strlen(text)))
			return true;
	}
	return false;
}

/* Read-only devices over the same file, attached by others before and after ours:
 * whichever is found first, what is mounted on ours is frozen and written down. */
static void every_device_on_a_file_counts(void **state)
{
	struct poolfix *fix = *state;
	cairn_auto_free char *path = NULL;
	struct pool_volume volume;
	struct cairn_err err = {0};
	const char *mount = mounted_volume(fix, &volume, &path);

	for (unsigned i = 0; i < READ_ONLY; i++)
		RUN("losetup", "--read-only", "--find", path);
	write_unsynced(mount, "what nobody has synced");
	poolfix_snapshot(fix, "v", "s");
	assert_true(snapshot_holds(fix, "v@s", "what nobody has synced"));
	take_down(fix, mount);
	assert_ok(pool_volume_delete(fix->pool, "v", POOL_DELETE_SNAPSHOTS, &err), &err);
}

/* ---- freezing ------------------------------------------------------------ */

/* Leaves the note of a snapshot that was never made, as a kill does. */
static void leave_note(struct poolfix *fix, const char *id, bool frozen)
{
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_catalogue_batch_new(fix->pool->cat, &batch, &err), &err);
	if (frozen)
		pool_records_cleanup_add_frozen(batch, id);
	else
		pool_records_cleanup_add(batch, id);
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err), &err);
}

static void only_what_we_froze_is_thawed(void **state)
{
	struct poolfix *fix = *state;
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;
	struct pool_volume volume;
	struct cairn_err err = {0};
	const char *mount = mounted_volume(fix, &volume, &path);
	char id[POOL_ID_MAX + 1];
	uint64_t bits;

	assert_true(pool_ids_parse_volume(volume.id, &bits));
	pool_ids_format_snapshot(bits, 12345, id);
	fd = open(mount, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (int frozen = 0; frozen < 2; frozen++) {
		bool still;

		leave_note(fix, id, frozen);
		assert_int_equal(ioctl(fd, FIFREEZE, 0), 0);
		assert_ok(pool_settle(fix->pool, NULL, &err), &err);
		still = ioctl(fd, FITHAW, 0) == 0;
		assert_int_equal(still, !frozen);
	}
	close(fd);
	fd = -1;
	take_down(fix, mount);
}

/* Somebody else holds the filesystem frozen: the cut goes on without, and what it
 * notes about itself does not thaw it. */
static void a_cut_beside_another_freeze_leaves_it(void **state)
{
	struct poolfix *fix = *state;
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;
	struct pool_volume volume;
	const char *mount = mounted_volume(fix, &volume, &path);

	fd = open(mount, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, FIFREEZE, 0), 0);
	poolfix_snapshot(fix, "v", "s");
	poolfix_reopen(fix);
	assert_int_equal(ioctl(fd, FITHAW, 0), 0);
	close(fd);
	fd = -1;
	take_down(fix, mount);
}

static int teardown(void **state)
{
	cairn_auto_fd int fd = open(blockdev_path("mnt"), O_RDONLY | O_CLOEXEC);

	if (fd >= 0)
		(void)ioctl(fd, FITHAW, 0);
	cairn_closep(&fd);
	fd = -1;
	blockdev_done();
	return poolfix_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define DEVICE_TEST(fn) cmocka_unit_test_setup_teardown(fn, poolfix_setup, teardown)
		DEVICE_TEST(what_is_deleted_is_not_attached),
		DEVICE_TEST(every_device_on_a_file_counts),
		DEVICE_TEST(only_what_we_froze_is_thawed),
		DEVICE_TEST(a_cut_beside_another_freeze_leaves_it),
	};

	if (!blockdev_may_run())
		return 77;
	return cmocka_run_group_tests_name("pool/devices", tests, NULL, NULL);
}
