/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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
#include "base/num.h"
#include "blockdev.h"
#include "pool/device/volume_device.h"

#define SIZE (512 * BLOCKDEV_MIB)

#define SOON_MS  300   /* long enough to see that a writer waits */
#define LATER_MS 60000 /* a writer that is free gets through, also on a busy machine */

/* A mounted filesystem in a new file; returns its mount point. */
static const char *mounted(const char *fs, const char *name)
{
	char device[DEVICE_PATH_MAX];
	char point[32];
	const char *file = blockdev_file(name, SIZE);
	struct cairn_err err = {0};

	blockdev_mkfs(fs, file);
	assert_ok(pool_device_attach(file, false, device, &err), &err);
	snprintf(point, sizeof(point), "m-%s", name);
	return blockdev_mount(device, point);
}

/* Thaws whatever a failing test left, so that taking down does not hang. */
static int teardown(void **state)
{
	const char *names[] = {"m-a", "m-b", "m-c"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		int fd = open(blockdev_path(names[i]), O_RDONLY | O_CLOEXEC);

		if (fd >= 0) {
			(void)ioctl(fd, FITHAW, 0);
			close(fd);
		}
	}
	blockdev_done();
	return 0;
}

static void every_filesystem_freezes_and_thaws(void **state)
{
	static const char *const kinds[] = {"ext4", "xfs", "btrfs"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct device_freeze *freeze = NULL;
		struct cairn_err err = {0};
		const char *point = mounted(kinds[i], "a");

		assert_ok(pool_device_freeze_begin(&point, 1, &freeze, &err), &err);
		assert_false(blockdev_writable_within(point, SOON_MS));
		assert_ok(pool_device_freeze_end(freeze, &err), &err);
		assert_true(blockdev_writable_within(point, LATER_MS));
		blockdev_done();
	}
}

static void several_are_frozen_together(void **state)
{
	const char *points[] = {mounted("ext4", "a"), mounted("xfs", "b"), mounted("btrfs", "c")};
	struct device_freeze *freeze = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_device_freeze_begin(points, 3, &freeze, &err), &err);
	for (size_t i = 0; i < 3; i++)
		assert_false(blockdev_writable_within(points[i], SOON_MS));
	assert_ok(pool_device_freeze_end(freeze, &err), &err);
	for (size_t i = 0; i < 3; i++)
		assert_true(blockdev_writable_within(points[i], LATER_MS));
}

static void one_filesystem_through_two_mounts_is_frozen_once(void **state)
{
	const char *point = mounted("btrfs", "a");
	const char *second = blockdev_path("second");
	struct device_freeze *freeze = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(mkdir(second, 0700), 0);
	RUN("btrfs", "-q", "subvolume", "create", blockdev_path("m-a/sub"));
	RUN("mount", "--bind", blockdev_path("m-a/sub"), second);

	const char *points[] = {point, second, point};

	assert_ok(pool_device_freeze_begin(points, 3, &freeze, &err), &err);
	assert_false(blockdev_writable_within(second, SOON_MS));
	assert_ok(pool_device_freeze_end(freeze, &err), &err);
	assert_true(blockdev_writable_within(second, LATER_MS));
}

static void nothing_to_freeze_is_fine(void **state)
{
	struct device_freeze *freeze = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_device_freeze_begin(NULL, 0, &freeze, &err), &err);
	assert_ok(pool_device_freeze_end(freeze, &err), &err);
	pool_device_freeze_free(NULL);
}

static void a_failure_leaves_none_frozen(void **state)
{
	const char *points[] = {mounted("ext4", "a"), mounted("ext4", "b")};
	struct device_freeze *freeze = NULL;
	struct cairn_err err = {0};

	(void)state;
	RUN("fsfreeze", "--freeze", points[1]);
	assert_code(pool_device_freeze_begin(points, 2, &freeze, &err), CAIRN_PRECONDITION);
	assert_null(freeze);
	assert_non_null(strstr(err.msg, points[1]));
	assert_true(blockdev_writable_within(points[0], LATER_MS));
	RUN("fsfreeze", "--unfreeze", points[1]); /* fails if we had thawed it */
	assert_true(blockdev_writable_within(points[1], LATER_MS));
}

static void a_kind_that_cannot_be_frozen_is_said_so(void **state)
{
	const char *points[] = {mounted("ext4", "a"), "/proc"};
	struct device_freeze *freeze = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_code(pool_device_freeze_begin(points, 2, &freeze, &err), CAIRN_UNIMPLEMENTED);
	assert_true(blockdev_writable_within(points[0], LATER_MS));
}

static void an_expired_hold_thaws_and_is_reported(void **state)
{
	const char *point = mounted("ext4", "a");
	struct device_freeze *freeze = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_device_freeze_begin_for(&point, 1, 200, &freeze, &err), &err);
	assert_true(blockdev_writable_within(point, LATER_MS));
	assert_code(pool_device_freeze_end(freeze, &err), CAIRN_ABORTED);
	assert_true(blockdev_writable_within(point, LATER_MS));
}

static void a_thaw_by_somebody_else_is_reported(void **state)
{
	const char *point = mounted("ext4", "a");
	struct device_freeze *freeze = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_device_freeze_begin(&point, 1, &freeze, &err), &err);
	RUN("fsfreeze", "--unfreeze", point);
	assert_code(pool_device_freeze_end(freeze, &err), CAIRN_ABORTED);
}

static void a_freeze_that_nobody_holds_is_ended_by_thawing_the_device(void **state)
{
	const char *point = mounted("ext4", "a");
	char device[DEVICE_PATH_MAX];
	struct cairn_err err = {0};

	(void)state;
	assert_ok(pool_device_find(blockdev_path("a"), device, &err), &err);
	RUN("fsfreeze", "--freeze", point);
	assert_ok(pool_device_thaw(device, &err), &err);
	assert_true(blockdev_writable_within(point, LATER_MS));
	assert_ok(pool_device_thaw(device, &err), &err); /* not frozen is fine */
	assert_int_equal(umount(point), 0);
	assert_ok(pool_device_thaw(device, &err), &err); /* nor mounted */
}

/* The youngest child of this process, just after a freeze began: the guard. */
static pid_t guard_pid(void)
{
	char text[4096];
	uint64_t pid = 0;
	char *last;
	FILE *file;

	snprintf(text, sizeof(text), "/proc/self/task/%d/children", (int)getpid());
	file = fopen(text, "re");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	text[strlen(text) - 1] = '\0'; /* a space ends each */
	last = strrchr(text, ' ');
	assert_int_equal(cairn_parse_u64(last ? last + 1 : text, &pid, NULL), 0);
	return (pid_t)pid;
}

static void a_killed_guard_is_noticed_and_its_freeze_ended(void **state)
{
	const char *point = mounted("ext4", "a");
	struct device_freeze *freeze = NULL;
	struct cairn_err err = {0};
	pid_t guard;

	(void)state;
	assert_ok(pool_device_freeze_begin(&point, 1, &freeze, &err), &err);
	guard = guard_pid();
	assert_int_equal(kill(guard, SIGTERM), 0); /* ignored */
	assert_false(blockdev_writable_within(point, SOON_MS));
	assert_int_equal(kill(guard, SIGKILL), 0);
	assert_code(pool_device_freeze_end(freeze, &err), CAIRN_ABORTED);
	assert_true(blockdev_writable_within(point, LATER_MS));
}

static void the_guard_keeps_no_descriptor_of_others(void **state)
{
	const char *point = mounted("ext4", "a");
	struct device_freeze *freeze = NULL;
	struct cairn_err err = {0};
	const struct dirent *entry;
	size_t open_fds = 0;
	char path[64];
	int ends[2];
	DIR *dir;

	(void)state;
	assert_int_equal(pipe2(ends, 0), 0);
	assert_ok(pool_device_freeze_begin(&point, 1, &freeze, &err), &err);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)guard_pid());
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		open_fds += entry->d_name[0] != '.';
	closedir(dir);
	assert_ok(pool_device_freeze_end(freeze, &err), &err);
	close(ends[0]);
	close(ends[1]);
	assert_int_equal(open_fds, 2); /* the socket and the mount */
}

/* Freezes for ever in a process group of its own and never ends the freeze. */
static _Noreturn void freeze_and_wait(const char *const points[], size_t n)
{
	struct device_freeze *freeze = NULL;

	setpgid(0, 0);
	/* What the one before held may be let go a moment later. */
	while (pool_device_freeze_begin(points, n, &freeze, NULL) < 0)
		usleep(1000);
	for (;;)
		pause();
}

static void killing_at_any_moment_leaves_nothing_frozen(void **state)
{
	const char *points[] = {mounted("ext4", "a"), mounted("xfs", "b")};
	unsigned seed = 7;

	(void)state;
	for (unsigned i = 0; i < 60; i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0)
			freeze_and_wait(points, 2);
		setpgid(pid, pid);
		/* The first ones fall into opening, forking and freezing. */
		usleep((unsigned)rand_r(&seed) % (i < 45 ? 8000 : 60000));
		assert_int_equal(kill(i % 2 ? pid : -pid, SIGKILL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_true(blockdev_writable_within(points[0], LATER_MS));
		assert_true(blockdev_writable_within(points[1], LATER_MS));
	}
}

struct worker {
	const char *point;
	atomic_bool *stop;
	unsigned held;
	int code;
};

static void *freeze_often(void *arg)
{
	struct worker *worker = arg;

	while (!*worker->stop && worker->code == 0) {
		struct device_freeze *freeze = NULL;

		worker->code = pool_device_freeze_begin(&worker->point, 1, &freeze, NULL);
		if (worker->code == 0)
			worker->code = pool_device_freeze_end(freeze, NULL);
		worker->held += worker->code == 0;
	}
	return NULL;
}

static void two_threads_freeze_their_own_at_once(void **state)
{
	atomic_bool stop = false;
	struct worker workers[] = {
		{.point = mounted("ext4", "a"), .stop = &stop},
		{.point = mounted("ext4", "b"), .stop = &stop},
	};
	pthread_t threads[2];

	(void)state;
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, freeze_often, &workers[i]), 0);
	cairn_sleep_ms(500);
	stop = true;
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(workers[i].code, 0);
		assert_true(workers[i].held > 0);
		assert_true(blockdev_writable_within(workers[i].point, LATER_MS));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(every_filesystem_freezes_and_thaws, teardown),
		cmocka_unit_test_teardown(several_are_frozen_together, teardown),
		cmocka_unit_test_teardown(one_filesystem_through_two_mounts_is_frozen_once,
					  teardown),
		cmocka_unit_test(nothing_to_freeze_is_fine),
		cmocka_unit_test_teardown(a_failure_leaves_none_frozen, teardown),
		cmocka_unit_test_teardown(a_kind_that_cannot_be_frozen_is_said_so, teardown),
		cmocka_unit_test_teardown(an_expired_hold_thaws_and_is_reported, teardown),
		cmocka_unit_test_teardown(a_thaw_by_somebody_else_is_reported, teardown),
		cmocka_unit_test_teardown(a_freeze_that_nobody_holds_is_ended_by_thawing_the_device,
					  teardown),
		cmocka_unit_test_teardown(a_killed_guard_is_noticed_and_its_freeze_ended, teardown),
		cmocka_unit_test_teardown(the_guard_keeps_no_descriptor_of_others, teardown),
		cmocka_unit_test_teardown(killing_at_any_moment_leaves_nothing_frozen, teardown),
		cmocka_unit_test_teardown(two_threads_freeze_their_own_at_once, teardown),
	};

	if (!blockdev_may_run())
		return 77;
	return cmocka_run_group_tests_name("pool/freeze", tests, NULL, NULL);
}
