/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_export_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "base/program.h"
#include "pool/rbd/rbd_export.h"

#define PATH_BYTES 4096

/* Connecting, fencing a dead holder, and the lock of the image. */
#define START_WAIT_MS 120000U

/* What is under way when an export ends was flushed before; one that waits for a cluster that
 * does not answer is killed. */
#define STOP_WAIT_MS 10000U
#define POLL_MS      5U

extern char **environ;

int rbd_export_look(const char *file, enum rbd_export_state *ret, struct cairn_err *err)
{
	char dir[PATH_BYTES];
	struct stat st, parent;

	snprintf(dir, sizeof(dir), "%s", file);
	*strrchr(dir, '/') = '\0';
	*ret = RBD_EXPORT_NONE;
	if (stat(file, &st) < 0) {
		if (errno == ENOENT)
			return 0;
		if (errno != ENOTCONN && errno != ECONNABORTED && errno != EIO)
			return cairn_err_sys(err, errno, "stat '%s'", file);
		*ret = RBD_EXPORT_ENDED;
		return 0;
	}
	if (stat(dir, &parent) < 0)
		return cairn_err_sys(err, errno, "stat '%s'", dir);
	if (st.st_dev != parent.st_dev)
		*ret = RBD_EXPORT_RUNS;
	return 0;
}

/* The file and its directories, for root only. */
static int make_file(const char *file, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	char dir[PATH_BYTES];

	snprintf(dir, sizeof(dir), "%s", file);
	for (char *at = strchr(dir + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			return cairn_err_sys(err, errno, "make '%s'", dir);
		*at = '/';
	}
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? cairn_err_sys(err, errno, "make '%s'", file) : 0;
}

/* "CODE TEXT" of the export; nothing if it was killed. */
static int read_report(int fd, struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() + START_WAIT_MS * CAIRN_NS_PER_MS;
	char text[512];
	const char *at = text;
	uint64_t code = 0;
	size_t n = 0;
	bool known;

	while (n < sizeof(text) - 1) {
		struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
		uint64_t now = cairn_monotonic_ns();
		ssize_t got;

		if (now >= deadline)
			return cairn_err_set(err, CAIRN_UNAVAILABLE,
					     "the export did not begin within %u s",
					     START_WAIT_MS / 1000);
		if (poll(&poll_fd, 1, (int)((deadline - now) / CAIRN_NS_PER_MS) + 1) <= 0)
			continue;
		got = read(fd, text + n, sizeof(text) - 1 - n);
		if (got <= 0 && !(got < 0 && errno == EINTR))
			break;
		n += got > 0 ? (size_t)got : 0;
		if (memchr(text, '\n', n))
			break;
	}
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	known = *at == '-'; /* codes of base/err.h are negative */
	at += known;
	if (!cairn_take_u64(&at, &code) || code > INT_MAX)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "the export ended at once");
	at += *at == ' ';
	return code ? cairn_err_set(err, known ? -(int)code : CAIRN_INTERNAL, "%s", at) : 0;
}

static int spawn_program(const char *path, char *const argv[], int output, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int rc = posix_spawn_file_actions_init(&actions);

	if (rc)
		return rc;
	rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	if (!rc)
		rc = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
						      O_WRONLY, 0);
	if (!rc)
		rc = posix_spawn(ret_pid, path, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

static int spawn_export(const struct rbd_export_spec *spec, int output, pid_t *ret_pid,
			struct cairn_err *err)
{
	static const char program[] = "cairn-" RBD_EXPORT_PROGRAM;
	const char *words[] = {program,
			       spec->address,
			       spec->ref.kind == STORE_SNAPSHOT ? "snapshot" : "volume",
			       spec->ref.id,
			       spec->file,
			       spec->read_only ? "ro" : "rw",
			       NULL};
	char path[PATH_BYTES], *argv[sizeof(words) / sizeof(words[0])];
	int rc = ENOENT;

	memcpy(argv, words, sizeof(argv)); /* posix_spawn() does not write to them */
	cairn_program_beside(RBD_EXPORT_PROGRAM, path, sizeof(path));
	if (path[0])
		rc = spawn_program(path, argv, output, ret_pid);
	if (rc == ENOENT || rc == ENOTDIR) {
		snprintf(path, sizeof(path), "%s/cairn-%s", CAIRN_ROLE_DIR, RBD_EXPORT_PROGRAM);
		rc = spawn_program(path, argv, output, ret_pid);
	}
	if (rc == ENOENT)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "'%s' is not installed", path);
	return rc ? cairn_err_sys(err, rc, "start '%s'", path) : 0;
}

int rbd_export_start(const struct rbd_export_spec *spec, struct cairn_err *err)
{
	cairn_auto_fd int output = -1;
	int ends[2], status;
	pid_t pid = -1;
	int rc = make_file(spec->file, err);

	if (rc)
		return rc;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return cairn_err_sys(err, errno, "pipe");
	output = ends[0];
	rc = spawn_export(spec, ends[1], &pid, err);
	close(ends[1]);
	if (rc)
		return rc;
	rc = read_report(output, err);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return rc;
}

/* ---- ending ------------------------------------------------------------------- */

static void pid_path(const char *file, char out[PATH_BYTES])
{
	snprintf(out, PATH_BYTES, "%.4080s" RBD_EXPORT_PID_ENDING, file);
}

/* The processes hold the lock of this file, so their ids are theirs. */
static void kill_processes(int fd)
{
	char text[64];
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	uint64_t keeper, server;
	const char *at = text;

	text[n > 0 ? n : 0] = '\0';
	if (!cairn_take_u64(&at, &keeper) || *at++ != ' ' || !cairn_take_u64(&at, &server) ||
	    keeper <= 1 || server <= 1 || keeper > INT_MAX || server > INT_MAX)
		return;
	(void)kill((pid_t)keeper, SIGKILL);
	(void)kill((pid_t)server, SIGKILL);
}

/* Waits until no process holds the export's lock. */
static int await_end(const char *file, struct cairn_err *err)
{
	uint64_t start = cairn_monotonic_ns();
	char path[PATH_BYTES];
	cairn_auto_fd int fd = -1;
	bool killed = false;

	pid_path(file, path);
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : cairn_err_sys(err, errno, "open '%s'", path);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		uint64_t ms = (cairn_monotonic_ns() - start) / CAIRN_NS_PER_MS;

		if (ms > 2U * STOP_WAIT_MS)
			return cairn_err_set(err, CAIRN_UNAVAILABLE,
					     "the export of '%s' does not end", file);
		if (ms > STOP_WAIT_MS && !killed) {
			kill_processes(fd);
			killed = true;
		}
		cairn_sleep_ms(POLL_MS);
	}
	(void)unlink(path);
	return 0;
}

int rbd_export_stop(const char *file, struct cairn_err *err)
{
	int rc;

	/* A program that has the file open keeps the export running for itself. */
	while (umount2(file, MNT_DETACH) == 0)
		;
	if (errno != EINVAL && errno != ENOENT)
		return cairn_err_sys(err, errno, "unmount '%s'", file);
	rc = await_end(file, err);
	if (!rc && unlink(file) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove '%s'", file);
	return rc;
}
