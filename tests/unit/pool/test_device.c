/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "blockdev.h"
#include "pool/device/volume_device.h"

#define SIZE (64 * BLOCKDEV_MIB)

static int teardown(void **state)
{
	(void)state;
	blockdev_done();
	return 0;
}

static uint64_t device_size(const char *device)
{
	cairn_auto_fd int fd = open(device, O_RDONLY | O_CLOEXEC);
	uint64_t size = 0;

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, BLKGETSIZE64, &size), 0);
	return size;
}

static uint32_t device_flags(const char *device)
{
	cairn_auto_fd int fd = open(device, O_RDONLY | O_CLOEXEC);
	struct loop_info64 info = {0};

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, LOOP_GET_STATUS64, &info), 0);
	return info.lo_flags;
}

static void assert_no_device(const char *file)
{
	char device[DEVICE_PATH_MAX] = "untouched";
	struct cairn_err err = {0};

	assert_ok(pool_device_find(file, device, &err), &err);
	assert_string_equal(device, "");
}

static void an_attached_file_is_found_until_detached(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	char found[DEVICE_PATH_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_no_device(file);
	assert_ok(pool_device_attach(file, false, device, &err), &err);
	assert_int_equal(device_size(device), SIZE);
	assert_ok(pool_device_find(file, found, &err), &err);
	assert_string_equal(found, device);
	assert_ok(pool_device_detach(file, &err), &err);
	assert_no_device(file);
	assert_ok(pool_device_detach(file, &err), &err);
}

static void a_file_keeps_the_device_it_has(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char first[DEVICE_PATH_MAX];
	char again[DEVICE_PATH_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_device_attach(file, false, first, &err), &err);
	assert_ok(pool_device_attach(file, false, again, &err), &err);
	assert_string_equal(again, first);
	assert_ok(pool_device_attach(file, true, again, &err), &err);
	assert_string_equal(again, first);
}

static void a_read_only_device_refuses_writes_and_a_writable_attach(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_device_attach(file, true, device, &err), &err);
	assert_true(device_flags(device) & LO_FLAGS_READ_ONLY);
	assert_code(pool_device_attach(file, false, device, &err), CAIRN_PRECONDITION);
	assert_non_null(strstr(err.msg, "read-only"));
}

static void a_device_attached_by_hand_is_found_also_under_another_name(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	const char *other = blockdev_path("b");
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};

	(void)state;
	RUN("losetup", "--find", file);
	assert_ok(pool_device_find(file, device, &err), &err);
	assert_string_not_equal(device, "");
	assert_int_equal(rename(file, other), 0);
	assert_ok(pool_device_find(other, device, &err), &err);
	assert_string_not_equal(device, "");
	assert_ok(pool_device_detach(other, &err), &err);
	assert_no_device(other);
}

static void the_same_inode_number_on_another_filesystem_is_another_file(void **state)
{
	const char *image = blockdev_file("image", 256 * BLOCKDEV_MIB);
	char device[DEVICE_PATH_MAX];
	char inner[DEVICE_PATH_MAX];
	struct cairn_err err = {0};
	struct stat one;
	struct stat two;

	(void)state;
	blockdev_mkfs("btrfs", image);
	assert_ok(pool_device_attach(image, false, device, &err), &err);
	blockdev_mount(device, "m");
	RUN("btrfs", "-q", "subvolume", "create", blockdev_path("m/s1"));
	blockdev_file("m/s1/f", BLOCKDEV_MIB);
	RUN("btrfs", "-q", "subvolume", "snapshot", blockdev_path("m/s1"), blockdev_path("m/s2"));
	assert_int_equal(stat(blockdev_path("m/s1/f"), &one), 0);
	assert_int_equal(stat(blockdev_path("m/s2/f"), &two), 0);
	assert_int_equal(one.st_ino, two.st_ino);
	assert_ok(pool_device_attach(blockdev_path("m/s1/f"), false, inner, &err), &err);
	assert_no_device(blockdev_path("m/s2/f"));
	assert_ok(pool_device_detach(blockdev_path("m/s1/f"), &err), &err);
}

static void a_mounted_device_is_not_detached(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	char found[DEVICE_PATH_MAX];
	struct cairn_err err = {0};

	(void)state;
	blockdev_mkfs("ext4", file);
	assert_ok(pool_device_attach(file, false, device, &err), &err);
	blockdev_mount(device, "m");
	assert_code(pool_device_detach(file, &err), CAIRN_PRECONDITION);
	assert_ok(pool_device_find(file, found, &err), &err);
	assert_string_equal(found, device);
	assert_false(device_flags(device) & LO_FLAGS_AUTOCLEAR);
	assert_int_equal(umount(blockdev_path("m")), 0);
	assert_ok(pool_device_detach(file, &err), &err);
	assert_no_device(file);
}

static void a_device_open_elsewhere_stays_as_it_was(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};
	int fd;

	(void)state;
	assert_ok(pool_device_attach(file, false, device, &err), &err);
	fd = open(device, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_code(pool_device_detach(file, &err), CAIRN_PRECONDITION);
	assert_false(device_flags(device) & LO_FLAGS_AUTOCLEAR);
	close(fd);
	assert_int_equal(device_size(device), SIZE); /* it did not go with the close */
	assert_ok(pool_device_detach(file, &err), &err);
	assert_no_device(file);
}

static void *close_in_a_moment(void *arg)
{
	cairn_sleep_ms(100);
	close(*(int *)arg);
	return NULL;
}

/* As the kernel does after umount(2) while another process walks over all filesystems. */
static void a_device_that_is_held_for_a_moment_is_detached(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};
	pthread_t holder;
	int fd;

	(void)state;
	assert_ok(pool_device_attach(file, false, device, &err), &err);
	fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pthread_create(&holder, NULL, close_in_a_moment, &fd), 0);
	assert_ok(pool_device_detach(file, &err), &err);
	pthread_join(holder, NULL);
	assert_no_device(file);
}

static void growth_of_the_file_is_seen_after_refresh(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_device_attach(file, false, device, &err), &err);
	assert_int_equal(truncate(file, 2 * SIZE), 0);
	assert_ok(pool_device_refresh_size(device, 2 * SIZE, &err), &err);
	assert_int_equal(device_size(device), 2 * SIZE);
}

static void a_device_of_a_part_of_its_file_grows_within_it(void **state)
{
	const char *file = blockdev_file("a", 3 * SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_device_attach_locked(file, false, SIZE, device, &err), &err);
	assert_int_equal(device_size(device), SIZE);
	assert_ok(pool_device_refresh_size(device, 2 * SIZE, &err), &err);
	assert_int_equal(device_size(device), 2 * SIZE);
	assert_ok(pool_device_refresh_size(device, SIZE, &err), &err); /* never less */
	assert_int_equal(device_size(device), 2 * SIZE);
	assert_int_equal(truncate(file, 4 * SIZE), 0);
	assert_ok(pool_device_refresh_size(device, 4 * SIZE, &err), &err);
	assert_int_equal(device_size(device), 4 * SIZE);
}

static void flushed_writes_are_in_the_file(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};
	char wrote[4096];
	char read_back[4096] = {0};
	int fd;

	(void)state;
	memset(wrote, 0x5a, sizeof(wrote));
	assert_ok(pool_device_attach(file, false, device, &err), &err);
	fd = open(device, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, wrote, sizeof(wrote), 8192), sizeof(wrote));
	assert_ok(pool_device_flush(device, &err), &err);
	close(fd);
	fd = open(file, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, read_back, sizeof(read_back), 8192), sizeof(read_back));
	close(fd);
	assert_memory_equal(wrote, read_back, sizeof(wrote));
}

static void mounts_are_found_for_every_filesystem(void **state)
{
	static const char *const kinds[] = {"ext4", "xfs", "btrfs"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		cairn_auto_free char *mount = NULL;
		const char *file = blockdev_file(kinds[i], 512 * BLOCKDEV_MIB);
		char device[DEVICE_PATH_MAX];
		struct cairn_err err = {0};
		char name[64];
		const char *point;

		snprintf(name, sizeof(name), "m %s \\040 #\t", kinds[i]);
		blockdev_mkfs(kinds[i], file);
		assert_ok(pool_device_attach(file, false, device, &err), &err);
		assert_ok(pool_device_mount_point(device, &mount, &err), &err);
		assert_null(mount);
		point = blockdev_mount(device, name);
		assert_ok(pool_device_mount_point(device, &mount, &err), &err);
		assert_string_equal(mount, point);
	}
}

static void a_covered_mount_point_is_not_taken_for_the_mount(void **state)
{
	cairn_auto_free char *mount_found = NULL;
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};
	const char *point;

	(void)state;
	blockdev_mkfs("ext4", file);
	assert_ok(pool_device_attach(file, false, device, &err), &err);
	point = blockdev_mount(device, "m");
	assert_int_equal(mount("none", point, "tmpfs", 0, "size=4k"), 0);
	assert_ok(pool_device_mount_point(device, &mount_found, &err), &err);
	assert_null(mount_found);
	assert_int_equal(mkdir(blockdev_path("n"), 0700), 0);
	assert_int_equal(umount(point), 0);
	/* Else what is mounted below is mounted on both. */
	assert_int_equal(mount(NULL, point, NULL, MS_PRIVATE, NULL), 0);
	RUN("mount", "--bind", point, blockdev_path("n"));
	assert_int_equal(mount("none", point, "tmpfs", 0, "size=4k"), 0);
	assert_ok(pool_device_mount_point(device, &mount_found, &err), &err);
	assert_string_equal(mount_found, blockdev_path("n"));
}

static void many_at_once_get_one_device_for_one_file(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};
	pid_t pids[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(pool_device_attach(file, false, device, NULL) == 0 ? 0 : 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_ok(pool_device_find(file, device, &err), &err);
	RUN("losetup", "--detach", device);
	assert_no_device(file); /* there was no second one */
}

static void each_of_many_files_at_once_gets_its_own_device(void **state)
{
	pid_t pids[8];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		char name[8];
		const char *file;

		snprintf(name, sizeof(name), "f%zu", i);
		file = blockdev_file(name, (i + 1) * BLOCKDEV_MIB);
		pids[i] = fork();
		if (pids[i] == 0) {
			char device[DEVICE_PATH_MAX];

			_exit(pool_device_attach(file, false, device, NULL) == 0 &&
					      device_size(device) == (i + 1) * BLOCKDEV_MIB
				      ? 0
				      : 1);
		}
	}
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
}

static void without_rights_a_device_is_found_by_what_sysfs_tells(void **state)
{
	const char *file = blockdev_file("a", SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(chmod(blockdev_scratch(), 0711), 0);
	assert_ok(pool_device_attach(file, false, device, &err), &err);
	pid = fork();
	if (pid == 0) {
		char found[DEVICE_PATH_MAX] = "";

		if (setgroups(0, NULL) < 0 || setgid(65534) < 0 || setuid(65534) < 0)
			_exit(2);
		_exit(pool_device_find(file, found, NULL) == 0 && strcmp(found, device) == 0 ? 0
											     : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void what_is_no_file_or_device_is_refused(void **state)
{
	char device[DEVICE_PATH_MAX] = "untouched";
	char *mount = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_code(pool_device_find(blockdev_path("none"), device, &err), CAIRN_NOT_FOUND);
	assert_code(pool_device_attach(blockdev_path("none"), false, device, &err),
		    CAIRN_NOT_FOUND);
	assert_code(pool_device_attach(blockdev_scratch(), false, device, &err), CAIRN_INVALID);
	assert_code(pool_device_detach(blockdev_path("none"), &err), CAIRN_NOT_FOUND);
	assert_code(pool_device_mount_point("/dev/null", &mount, &err), CAIRN_INVALID);
	assert_code(pool_device_flush("/dev/no-such-device", &err), CAIRN_NOT_FOUND);
	assert_string_equal(device, "untouched");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(an_attached_file_is_found_until_detached, teardown),
		cmocka_unit_test_teardown(a_file_keeps_the_device_it_has, teardown),
		cmocka_unit_test_teardown(a_read_only_device_refuses_writes_and_a_writable_attach,
					  teardown),
		cmocka_unit_test_teardown(
			a_device_attached_by_hand_is_found_also_under_another_name, teardown),
		cmocka_unit_test_teardown(
			the_same_inode_number_on_another_filesystem_is_another_file, teardown),
		cmocka_unit_test_teardown(a_mounted_device_is_not_detached, teardown),
		cmocka_unit_test_teardown(a_device_that_is_held_for_a_moment_is_detached, teardown),
		cmocka_unit_test_teardown(a_device_open_elsewhere_stays_as_it_was, teardown),
		cmocka_unit_test_teardown(growth_of_the_file_is_seen_after_refresh, teardown),
		cmocka_unit_test_teardown(a_device_of_a_part_of_its_file_grows_within_it, teardown),
		cmocka_unit_test_teardown(flushed_writes_are_in_the_file, teardown),
		cmocka_unit_test_teardown(mounts_are_found_for_every_filesystem, teardown),
		cmocka_unit_test_teardown(a_covered_mount_point_is_not_taken_for_the_mount,
					  teardown),
		cmocka_unit_test_teardown(many_at_once_get_one_device_for_one_file, teardown),
		cmocka_unit_test_teardown(each_of_many_files_at_once_gets_its_own_device, teardown),
		cmocka_unit_test_teardown(without_rights_a_device_is_found_by_what_sysfs_tells,
					  teardown),
		cmocka_unit_test_teardown(what_is_no_file_or_device_is_refused, teardown),
	};

	if (!blockdev_may_run())
		return 77;
	return cmocka_run_group_tests_name("pool/device", tests, NULL, NULL);
}
