/* SPDX-License-Identifier: Apache-2.0 */

/* Where a back end opens and where it says why not. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cairntest.h"
#include "store_helper.h"

static void assert_refused(const char *backend, const char *dir, int code, const char *hint)
{
	struct cairn_err err = {0};
	struct store *store = NULL;
	char made[300];
	struct stat st;

	assert_code(pool_store_make(backend, dir, &store, &err), code);
	if (hint && !strstr(err.msg, hint))
		fail_msg("'%s' is not in '%s'", hint, err.msg);
	snprintf(made, sizeof(made), "%s/volumes", dir);
	assert_int_equal(stat(made, &st), -1);
}

static void a_wrong_filesystem_is_refused_with_advice(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_PLAIN, 0);

	(void)state;
	assert_non_null(dir);
	assert_refused("zfs", dir, CAIRN_INVALID, "btrfs, reflink and copy");
	assert_refused("btrfs", "/proc", CAIRN_PRECONDITION, "use a directory on btrfs");
	assert_refused("reflink", "/proc", CAIRN_PRECONDITION, "back end copy");
	assert_refused("copy", "/nonexistent", CAIRN_NOT_FOUND, NULL);
	scratchfs_remove();
}

static void a_read_only_store_makes_no_directories(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_PLAIN, 0);
	struct store *store = NULL;

	(void)state;
	assert_non_null(dir);
	assert_code(pool_store_open("copy", dir, false, &store, NULL), CAIRN_NOT_FOUND);
	assert_int_equal(rmdir(dir), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	scratchfs_remove();
}

static void xfs_without_reflinks_is_refused(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_XFS_NO_REFLINK, 512 * MIB);

	(void)state;
	if (!dir)
		skip();
	assert_refused("reflink", dir, CAIRN_PRECONDITION, "reflink=1");
	assert_refused("btrfs", dir, CAIRN_PRECONDITION, "reflink or copy");
	scratchfs_remove();
}

/* In a child without rights: 0 when all is as it should be. */
static int unprivileged(const char *dir)
{
	struct cairn_err err = {0};
	struct store *store = NULL;

	if (setgid(65534) < 0 || setuid(65534) < 0)
		return 1;
	if (pool_store_open("btrfs", dir, true, &store, &err) != CAIRN_PRECONDITION ||
	    !strstr(err.msg, "root"))
		return 2;
	if (pool_store_open("reflink", dir, true, &store, &err) != 0)
		return 3;
	if (pool_store_volume_create(store, "vol-1", MIB, &err) != 0 ||
	    pool_store_snapshot_cut(store, "vol-1", "snap-1", MIB, &err) != 0)
		return 4;
	pool_store_close(store);
	return 0;
}

static void without_root_btrfs_still_has_reflinks(void **state)
{
	const char *dir = scratchfs_make(SCRATCHFS_BTRFS, 256 * MIB);
	char parent[300];
	int status;
	pid_t pid;

	(void)state;
	if (!dir)
		skip();
	snprintf(parent, sizeof(parent), "%.*s", (int)(strrchr(dir, '/') - dir), dir);
	assert_int_equal(chmod(parent, 0755), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(unprivileged(dir));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	scratchfs_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wrong_filesystem_is_refused_with_advice),
		cmocka_unit_test(a_read_only_store_makes_no_directories),
		cmocka_unit_test(xfs_without_reflinks_is_refused),
		cmocka_unit_test(without_root_btrfs_still_has_reflinks),
	};

	return cmocka_run_group_tests_name("pool/store open", tests, NULL, NULL);
}
