/* SPDX-License-Identifier: Apache-2.0 */

/* Fault injection for tests, as an LD_PRELOAD library.
 *
 * Counts every call that changes state on disk or in the kernel's tables of
 * mounts and loop devices, in all threads and in all child processes, and at
 * the n-th one kills the process or makes the call fail. A test first runs an
 * operation to learn how many calls it makes, then once for each n.
 *
 *   CAIRN_SHIM_COUNT=FILE    where the counter lives: a file mapped by all
 *                            processes, made when absent; its first 8 bytes are
 *                            the number of calls so far (native byte order).
 *                            Without it nothing is counted or injected.
 *   CAIRN_SHIM_DIRS=A:B      only calls on paths below these directories count
 *                            (/dev/loop* always does); the ioctls listed below
 *                            count wherever they are made
 *   CAIRN_SHIM_KILL_AT=N     SIGKILL at the N-th call
 *   CAIRN_SHIM_KILL_WHEN=before|after    the call is made (default: before)
 *   CAIRN_SHIM_KILL_WHOM=self|all        the process that makes the call, or
 *                            every process that shares the counter
 *   CAIRN_SHIM_FAIL_AT=N     the N-th call is not made and fails
 *   CAIRN_SHIM_FAIL_ERRNO=ENOSPC|EIO|ENOMEM|EDQUOT|EROFS|EBUSY|<number>
 *   CAIRN_SHIM_FAIL_MODE=once|after      only the N-th, or all from there on
 *                            (then without FITHAW: nothing could undo a freeze)
 *   CAIRN_SHIM_READS=1       ioctls that only read count too
 *   CAIRN_SHIM_LOG=FILE      a line "N PID CALL PATH" for each call
 *
 * The library makes system calls itself instead of looking for the next
 * definition, so it works in a child forked from a process with threads. What
 * libc does behind its own functions (stdio, mkstemp) is not seen; nor are
 * writes to mapped memory. A program must be linked dynamically, and not with
 * a sanitizer.
 */
#include "faultshim.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define PROCESS_MAX 256

struct shared {
	atomic_uint_least64_t count;
	atomic_uint processes;
	_Atomic pid_t pids[PROCESS_MAX];
	atomic_bool dying; /* all are being killed: whoever joins now goes too */
};

static struct shared *shared;
static struct {
	const char *dirs;
	const char *log;
	uint64_t kill_at; /* 0: never */
	bool kill_after_call;
	bool kill_all;
	uint64_t fail_at; /* 0: never */
	int fail_errno;
	bool fail_on;
	bool reads;
} plan;

/* ---- setting up --------------------------------------------------------- */

static uint64_t number_of(const char *text)
{
	uint64_t value = 0;

	while (text && *text >= '0' && *text <= '9')
		value = value * 10 + (uint64_t)(*text++ - '0');
	return value;
}

static bool env_is(const char *name, const char *value)
{
	const char *text = getenv(name);

	return text && strcmp(text, value) == 0;
}

static int errno_of(const char *text)
{
	static const struct {
		const char *name;
		int value;
	} names[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO},     {"ENOMEM", ENOMEM},
		     {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"EBUSY", EBUSY}};

	for (size_t i = 0; text && i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(text, names[i].name) == 0)
			return names[i].value;
	return number_of(text) > 0 ? (int)number_of(text) : EIO;
}

/* A process joins the list of those to kill. */
static void enlist(void)
{
	unsigned slot = atomic_fetch_add(&shared->processes, 1);

	if (slot < PROCESS_MAX)
		shared->pids[slot] = getpid();
	if (shared->dying)
		syscall(SYS_kill, getpid(), SIGKILL);
}

static void map_counter(const char *path)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *map;

	if (fd < 0 || syscall(SYS_ftruncate, fd, sizeof(struct shared)) < 0)
		abort();
	map = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		abort();
	syscall(SYS_close, fd);
	shared = map;
}

__attribute__((constructor)) static void set_up(void)
{
	const char *count = getenv("CAIRN_SHIM_COUNT");

	if (!count)
		return;
	plan.dirs = getenv("CAIRN_SHIM_DIRS");
	plan.kill_at = number_of(getenv("CAIRN_SHIM_KILL_AT"));
	plan.kill_after_call = env_is("CAIRN_SHIM_KILL_WHEN", "after");
	plan.kill_all = env_is("CAIRN_SHIM_KILL_WHOM", "all");
	plan.fail_at = number_of(getenv("CAIRN_SHIM_FAIL_AT"));
	plan.fail_errno = errno_of(getenv("CAIRN_SHIM_FAIL_ERRNO"));
	plan.fail_on = env_is("CAIRN_SHIM_FAIL_MODE", "after");
	plan.reads = env_is("CAIRN_SHIM_READS", "1");
	plan.log = getenv("CAIRN_SHIM_LOG");
	map_counter(count);
	enlist();
	pthread_atfork(NULL, NULL, enlist);
}

/* ---- which calls count -------------------------------------------------- */

static bool path_counts(const char *path)
{
	const char *dir = plan.dirs;

	if (strncmp(path, "/dev/loop", 9) == 0)
		return true;
	while (dir && *dir) {
		size_t n = strcspn(dir, ":");

		if (n > 0 && strncmp(path, dir, n) == 0 && (path[n] == '/' || path[n] == '\0'))
			return true;
		dir += n + (dir[n] == ':');
	}
	return false;
}

static void path_of_fd(int fd, char out[PATH_MAX])
{
	char link[64];
	ssize_t n;

	if (fd == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/self/cwd");
	else
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX - 1);
	out[n > 0 ? n : 0] = '\0';
}

static void path_at(int dir, const char *path, char out[PATH_MAX])
{
	size_t n;

	if (!path || path[0] == '/') {
		snprintf(out, PATH_MAX, "%s", path ? path : "");
		return;
	}
	path_of_fd(dir, out);
	n = strlen(out);
	snprintf(out + n, PATH_MAX - n, "/%s", path);
}

/* ---- what happens at a call --------------------------------------------- */

/* Opened for each line: a program may close descriptors that it does not know,
 * and get the same number for a file of its own. */
static void log_call(uint64_t n, const char *name, const char *path)
{
	char line[PATH_MAX + 128];
	int len;
	int fd;

	if (!plan.log)
		return;
	len = snprintf(line, sizeof(line), "%llu %d %s %s\n", (unsigned long long)n, (int)getpid(),
		       name, path);
	fd = (int)syscall(SYS_openat, AT_FDCWD, plan.log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
			  0600);
	if (len > 0 && fd >= 0)
		syscall(SYS_write, fd, line,
			(size_t)len < sizeof(line) ? (size_t)len : sizeof(line) - 1);
	if (fd >= 0)
		syscall(SYS_close, fd);
}

static _Noreturn void die(void)
{
	pid_t self = getpid();

	if (plan.kill_all)
		shared->dying = true;
	for (unsigned i = 0; plan.kill_all && i < shared->processes && i < PROCESS_MAX; i++)
		if (shared->pids[i] > 0 && shared->pids[i] != self)
			syscall(SYS_kill, shared->pids[i], SIGKILL);
	syscall(SYS_kill, self, SIGKILL);
	for (;;)
		pause();
}

/* False when the call must fail, with errno set. */
static bool enter(struct call *call, const char *name, const char *path, bool may_fail)
{
	int saved = errno;

	call->n = atomic_fetch_add(&shared->count, 1) + 1;
	log_call(call->n, name, path);
	if (call->n == plan.kill_at && !plan.kill_after_call)
		die();
	errno = saved;
	if (plan.fail_at &&
	    (call->n == plan.fail_at || (plan.fail_on && call->n > plan.fail_at && may_fail))) {
		errno = plan.fail_errno;
		return false;
	}
	return true;
}

long shim_leave(const struct call *call, long result)
{
	if (call->n && call->n == plan.kill_at && plan.kill_after_call)
		die();
	return result;
}

bool shim_enter_fd(struct call *call, const char *name, int fd)
{
	char path[PATH_MAX];
	int saved = errno;

	call->n = 0;
	if (!shared)
		return true;
	path_of_fd(fd, path);
	errno = saved;
	return !path_counts(path) || enter(call, name, path, true);
}

bool shim_enter_path(struct call *call, const char *name, int dir, const char *path)
{
	char full[PATH_MAX];
	int saved = errno;

	call->n = 0;
	if (!shared)
		return true;
	path_at(dir, path, full);
	errno = saved;
	return !path_counts(full) || enter(call, name, full, true);
}

bool shim_enter_any(struct call *call, const char *name, int fd, bool reads, bool may_fail)
{
	char path[PATH_MAX];
	int saved = errno;

	call->n = 0;
	if (!shared || (reads && !plan.reads))
		return true;
	path_of_fd(fd, path);
	errno = saved;
	return enter(call, name, path, may_fail);
}
