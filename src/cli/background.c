/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/background.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/options.h"
#include "cli/pool_open.h"
#include "cli/progress.h"
#include "pool/pool.h"

/* Detaches the process from its caller: session, directory and standard streams. */
static void leave_terminal(void)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	if (chdir("/") < 0 || null_fd < 0)
		return;
	for (int fd = 0; fd <= 2; fd++)
		dup2(null_fd, fd);
	if (null_fd > 2)
		close(null_fd);
}

static int background_complete(const struct pool_snapshot *snapshots, size_t n,
			       struct pool_hold *hold, struct cairn_err *err)
{
	cairn_cleanup(pool_closep) struct pool *pool = NULL;
	int rc = cmd_pool_open(CMD_WRITE, &pool, err);

	pool_hold_release(hold);
	for (size_t i = 0; i < n && !rc; i++)
		rc = pool_snapshot_complete(pool, snapshots[i].id, NULL, err);
	return rc;
}

/* Runs in the child. Writes the error to `fd`; its code is 0 after a success. */
_Noreturn static void background_work(const struct pool_snapshot *snapshots, size_t n,
				      struct pool_hold *hold, int fd)
{
	struct cairn_err err = {0};

	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	leave_terminal();
	if (background_complete(snapshots, n, hold, &err) == 0)
		err = (struct cairn_err){0};
	(void)cairn_write_full(fd, &err, sizeof(err));
	_exit(0);
}

/* Waits for the child's result. A child that was killed writes none. */
static enum cmd_sets background_await(int fd, uint64_t wait_ms, struct cairn_err *err)
{
	uint64_t end_ns = cairn_monotonic_ns() + wait_ms * CAIRN_NS_PER_MS;
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	struct cairn_err reason;
	ssize_t got;

	for (;;) {
		uint64_t now = cairn_monotonic_ns();
		uint64_t left_ms = now < end_ns ? (end_ns - now) / CAIRN_NS_PER_MS + 1 : 0;
		int ready = poll(&poll_fd, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX);

		if (ready > 0)
			break;
		if ((ready == 0 && cairn_monotonic_ns() >= end_ns) || cmd_interrupted())
			return CMD_SETS_RUNNING;
	}
	got = cairn_read_full(fd, &reason, sizeof(reason));
	if (got != (ssize_t)sizeof(reason)) {
		cairn_err_set(err, CAIRN_INTERNAL, "the background process ended early");
		return CMD_SETS_FAILED;
	}
	if (reason.code == 0)
		return CMD_SETS_DONE;
	*err = reason;
	return CMD_SETS_FAILED;
}

/* Makes the pool's path absolute, because the child runs in another directory. */
static int make_pool_absolute(char path[PATH_MAX], struct cairn_err *err)
{
	int rc = pool_address_absolute(cmd_pool_dir(), path, PATH_MAX, err);

	if (!rc)
		cmd_options.pool = path;
	return rc;
}

/* Returns the read end of the child's pipe, or -1. */
static int background_start(const struct pool_snapshot *snapshots, size_t n, struct pool_hold *hold,
			    pid_t *ret_pid, struct cairn_err *err)
{
	static char path[PATH_MAX];
	cairn_auto_fd int read_end = -1;
	int ends[2];

	if (make_pool_absolute(path, err))
		return -1;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		cairn_err_sys(err, errno, "pipe");
		return -1;
	}
	read_end = ends[0];
	*ret_pid = fork();
	if (*ret_pid == 0) {
		close(ends[0]);
		background_work(snapshots, n, hold, ends[1]);
	}
	close(ends[1]);
	if (*ret_pid < 0) {
		cairn_err_sys(err, errno, "fork");
		return -1;
	}
	return cairn_take_fd(&read_end);
}

enum cmd_sets cmd_sets_make(const struct pool_snapshot *snapshots, size_t n, uint64_t wait_ms,
			    struct pool_hold *hold, struct cairn_err *err)
{
	pid_t pid = -1;
	cairn_auto_fd int read_end = background_start(snapshots, n, hold, &pid, err);
	enum cmd_sets state;

	pool_hold_release(hold);
	if (read_end < 0)
		return CMD_SETS_FAILED;
	state = background_await(read_end, wait_ms, err);
	if (state != CMD_SETS_RUNNING)
		waitpid(pid, NULL, 0);
	return state;
}
