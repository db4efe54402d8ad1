/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "blockdev.h"
#include "pool/device/volume_device.h"
#include "pool/store/pool_image.h"

#define SIZE IMAGE_SIZE_MIN

#define FS_SHUTDOWN _IOR('X', 125, uint32_t) /* of XFS and ext4 */

static int teardown(void **state)
{
	(void)state;
	blockdev_done();
	return 0;
}

static size_t entries(const char *path)
{
	DIR *dir = opendir(path);
	size_t n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Makes an image and mounts it at "m". */
static void mount_new(const char *file, enum image_fs kind)
{
	struct cairn_err err = {0};

	assert_ok(pool_image_make(file, kind, SIZE, &err), &err);
	assert_ok(pool_image_mount(file, kind, blockdev_path("m"), &err), &err);
}

static void assert_mounted(const char *point)
{
	struct cairn_err err = {0};
	bool mounted = false;

	assert_ok(pool_image_is_mounted(point, &mounted, &err), &err);
	assert_true(mounted);
}

static void both_kinds_are_made_mounted_and_unmounted(void **state)
{
	static const enum image_fs kinds[] = {IMAGE_BTRFS, IMAGE_XFS};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		const char *file = blockdev_path("image");
		const char *point = blockdev_path("m");
		char device[DEVICE_PATH_MAX];
		struct image_host host;
		struct cairn_err err = {0};
		struct stat st;
		bool mounted = true;

		assert_ok(pool_image_make(file, kinds[i], SIZE, &err), &err);
		assert_int_equal(stat(file, &st), 0);
		assert_int_equal(st.st_size, SIZE);
		assert_true((uint64_t)st.st_blocks * 512 < SIZE / 2); /* sparse */
		assert_ok(pool_image_is_mounted(point, &mounted, &err), &err);
		assert_false(mounted);
		assert_ok(pool_image_mount(file, kinds[i], point, &err), &err);
		assert_ok(pool_image_mount(file, kinds[i], point, &err), &err);
		assert_ok(pool_image_is_mounted(point, &mounted, &err), &err);
		assert_true(mounted);
		assert_ok(pool_image_probe(point, &host, &err), &err);
		assert_true(host.can_reflink);
		assert_int_equal(host.is_btrfs, kinds[i] == IMAGE_BTRFS);
		assert_int_equal(host.is_xfs, kinds[i] == IMAGE_XFS);
		assert_int_equal(host.can_tree_search, kinds[i] == IMAGE_BTRFS);
		assert_ok(pool_image_unmount(point, &err), &err);
		assert_ok(pool_image_unmount(point, &err), &err); /* once more is fine */
		assert_ok(pool_device_find(file, device, &err), &err);
		assert_string_equal(device, "");
		assert_int_equal(unlink(file), 0);
	}
}

static void what_was_written_is_there_after_mounting_again(void **state)
{
	const char *file = blockdev_path("image");
	const char *point = blockdev_path("m");
	struct cairn_err err = {0};
	struct stat st;

	(void)state;
	mount_new(file, IMAGE_BTRFS);
	blockdev_file("m/kept", 12345);
	assert_ok(pool_image_unmount(point, &err), &err);
	assert_int_not_equal(stat(blockdev_path("m/kept"), &st), 0);
	assert_ok(pool_image_mount(file, IMAGE_BTRFS, point, &err), &err);
	assert_int_equal(stat(blockdev_path("m/kept"), &st), 0);
	assert_int_equal(st.st_size, 12345);
}

static void a_copy_is_mounted_beside_the_original(void **state)
{
	const char *file = blockdev_path("image");
	const char *copy = blockdev_path("copy");
	const char *cp[] = {"cp", file, copy, NULL};
	struct cairn_err err = {0};
	struct stat st;

	(void)state;
	assert_ok(pool_image_make(file, IMAGE_XFS, SIZE, &err), &err);
	blockdev_run(cp);
	assert_ok(pool_image_mount(file, IMAGE_XFS, blockdev_path("m"), &err), &err);
	assert_ok(pool_image_mount(copy, IMAGE_XFS, blockdev_path("m2"), &err), &err);
	blockdev_file("m2/only", 1);
	assert_int_not_equal(stat(blockdev_path("m/only"), &st), 0);
}

static void an_image_in_use_is_not_unmounted(void **state)
{
	const char *point = blockdev_path("m");
	struct cairn_err err = {0};
	int fd;

	(void)state;
	mount_new(blockdev_path("image"), IMAGE_XFS);
	blockdev_file("m/f", 1);
	fd = open(blockdev_path("m/f"), O_RDONLY | O_CLOEXEC);
	assert_code(pool_image_unmount(point, &err), CAIRN_PRECONDITION);
	assert_mounted(point);
	close(fd);
	assert_ok(pool_image_unmount(point, &err), &err);
}

/* Another process may have mounted it again since it was seen to have stopped. */
static void only_an_image_that_has_stopped_is_taken_away(void **state)
{
	const char *file = blockdev_path("image");
	const char *point = blockdev_path("m");
	uint32_t without_log = 2;
	struct cairn_err err = {0};
	bool mounted = false;
	int fd;

	(void)state;
	mount_new(file, IMAGE_XFS);
	assert_ok(pool_image_unmount_stopped(file, point, &err), &err);
	assert_mounted(point);
	fd = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, FS_SHUTDOWN, &without_log), 0);
	close(fd);
	assert_ok(pool_image_unmount_stopped(file, point, &err), &err);
	assert_ok(pool_image_is_mounted(point, &mounted, &err), &err);
	assert_false(mounted);
}

static void something_else_mounted_there_is_not_taken_for_it(void **state)
{
	const char *file = blockdev_path("image");
	const char *point = blockdev_path("m");
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_image_make(file, IMAGE_BTRFS, SIZE, &err), &err);
	assert_int_equal(mkdir(point, 0700), 0);
	assert_int_equal(mount("none", point, "tmpfs", 0, "size=4k"), 0);
	assert_code(pool_image_mount(file, IMAGE_BTRFS, point, &err), CAIRN_PRECONDITION);
}

static void a_file_without_a_filesystem_is_called_damaged(void **state)
{
	const char *file = blockdev_file("image", SIZE);
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_code(pool_image_mount(file, IMAGE_BTRFS, blockdev_path("m"), &err), CAIRN_DATA_LOSS);
	assert_code(pool_image_mount(file, IMAGE_XFS, blockdev_path("m"), &err), CAIRN_DATA_LOSS);
	assert_ok(pool_device_find(file, device, &err), &err);
	assert_string_equal(device, ""); /* and the device is let go of */
}

static void an_image_mounted_elsewhere_shares_its_device(void **state)
{
	const char *file = blockdev_path("image");
	struct cairn_err err = {0};
	struct stat st;

	(void)state;
	assert_ok(pool_image_make(file, IMAGE_BTRFS, SIZE, &err), &err);
	assert_ok(pool_image_mount(file, IMAGE_BTRFS, blockdev_path("one"), &err), &err);
	assert_ok(pool_image_mount(file, IMAGE_BTRFS, blockdev_path("two"), &err), &err);
	blockdev_file("one/f", 1);
	assert_int_equal(stat(blockdev_path("two/f"), &st), 0);
	assert_ok(pool_image_unmount(blockdev_path("one"), &err), &err);
	assert_ok(pool_image_unmount(blockdev_path("two"), &err), &err);
}

static void many_at_once_mount_it_once(void **state)
{
	const char *file = blockdev_path("image");
	const char *point = blockdev_path("m");
	struct cairn_err err = {0};
	pid_t pids[6];
	bool mounted;

	(void)state;
	assert_ok(pool_image_make(file, IMAGE_BTRFS, SIZE, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(pool_image_mount(file, IMAGE_BTRFS, point, NULL) == 0 ? 0 : 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(pids); i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_ok(pool_image_unmount(point, &err), &err);
	assert_ok(pool_image_is_mounted(point, &mounted, &err), &err);
	assert_false(mounted);
}

static void bad_requests_make_nothing(void **state)
{
	const char *file = blockdev_path("image");
	struct cairn_err err = {0};
	size_t before = entries(blockdev_scratch());

	(void)state;
	assert_code(pool_image_make(file, IMAGE_BTRFS, 0, &err), CAIRN_INVALID);
	assert_code(pool_image_make(file, IMAGE_XFS, SIZE - 1, &err), CAIRN_INVALID);
	assert_code(pool_image_make(file, IMAGE_XFS, UINT64_MAX, &err), CAIRN_RANGE);
	assert_int_equal(entries(blockdev_scratch()), before);
	blockdev_file("image", 1);
	assert_code(pool_image_make(file, IMAGE_BTRFS, SIZE, &err), CAIRN_EXISTS);
	assert_code(pool_image_mount(blockdev_path("none"), IMAGE_BTRFS, blockdev_path("m"), &err),
		    CAIRN_NOT_FOUND);
}

static void a_missing_mkfs_names_the_package_and_leaves_nothing(void **state)
{
	const char *path = getenv("PATH");
	struct cairn_err err = {0};

	(void)state;
	assert_non_null(path);

	char saved[4096];

	snprintf(saved, sizeof(saved), "%s", path);
	setenv("PATH", "/nonexistent", 1);
	assert_code(pool_image_make(blockdev_path("image"), IMAGE_XFS, SIZE, &err),
		    CAIRN_NOT_FOUND);
	setenv("PATH", saved, 1);
	assert_non_null(strstr(err.msg, "xfsprogs"));
	assert_int_equal(entries(blockdev_scratch()), 2);
}

static void probing_leaves_nothing_behind(void **state)
{
	struct image_host host;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_image_probe(blockdev_scratch(), &host, &err), &err);
	assert_true(host.free_bytes > 0);
	assert_true(host.can_mount);
	assert_int_equal(entries(blockdev_scratch()), 2);
	assert_code(pool_image_probe(blockdev_path("none"), &host, &err), CAIRN_NOT_FOUND);
}

static void without_rights_the_probe_says_no_and_does_not_fail(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	assert_int_equal(chmod(blockdev_scratch(), 0777), 0);
	pid = fork();
	if (pid == 0) {
		struct image_host host;

		if (setgid(65534) < 0 || setuid(65534) < 0)
			_exit(2);
		_exit(pool_image_probe(blockdev_scratch(), &host, NULL) == 0 && !host.can_mount &&
				      !host.can_tree_search
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(both_kinds_are_made_mounted_and_unmounted, teardown),
		cmocka_unit_test_teardown(what_was_written_is_there_after_mounting_again, teardown),
		cmocka_unit_test_teardown(a_copy_is_mounted_beside_the_original, teardown),
		cmocka_unit_test_teardown(an_image_in_use_is_not_unmounted, teardown),
		cmocka_unit_test_teardown(only_an_image_that_has_stopped_is_taken_away, teardown),
		cmocka_unit_test_teardown(something_else_mounted_there_is_not_taken_for_it,
					  teardown),
		cmocka_unit_test_teardown(a_file_without_a_filesystem_is_called_damaged, teardown),
		cmocka_unit_test_teardown(an_image_mounted_elsewhere_shares_its_device, teardown),
		cmocka_unit_test_teardown(many_at_once_mount_it_once, teardown),
		cmocka_unit_test_teardown(bad_requests_make_nothing, teardown),
		cmocka_unit_test_teardown(a_missing_mkfs_names_the_package_and_leaves_nothing,
					  teardown),
		cmocka_unit_test_teardown(probing_leaves_nothing_behind, teardown),
		cmocka_unit_test_teardown(without_rights_the_probe_says_no_and_does_not_fail,
					  teardown),
	};

	if (!blockdev_may_run())
		return 77;
	return cmocka_run_group_tests_name("pool/image", tests, NULL, NULL);
}
