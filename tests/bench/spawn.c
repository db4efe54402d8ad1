/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a command N times, one after the other, its output thrown away, and
 * prints a line for each: wall, user and system time in microseconds, peak
 * resident memory in KiB, exit status.
 *   bench-spawn N PROGRAM ARG... */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"

extern char **environ;

static intmax_t microseconds(struct timeval tv)
{
	return (intmax_t)tv.tv_sec * 1000000 + tv.tv_usec;
}

static int run_once(const posix_spawn_file_actions_t *actions, char **argv, struct cairn_err *err)
{
	uint64_t start = cairn_monotonic_ns();
	struct rusage usage;
	uint64_t wall;
	pid_t pid;
	int status, rc;

	rc = posix_spawnp(&pid, argv[0], actions, NULL, argv, environ);
	if (rc != 0)
		return cairn_err_sys(err, rc, "start '%s'", argv[0]);
	while (wait4(pid, &status, 0, &usage) < 0)
		if (errno != EINTR)
			return cairn_err_sys(err, errno, "wait for '%s'", argv[0]);
	wall = (cairn_monotonic_ns() - start) / 1000;
	printf("%ju %jd %jd %ld %d\n", (uintmax_t)wall, microseconds(usage.ru_utime),
	       microseconds(usage.ru_stime), usage.ru_maxrss,
	       WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}

int main(int argc, char **argv)
{
	struct cairn_err err = {0};
	posix_spawn_file_actions_t actions;
	uint64_t n = 0;
	int rc = argc < 3 ? cairn_err_set(&err, CAIRN_INVALID, "usage: N PROGRAM ARG...")
			  : cairn_parse_u64(argv[1], &n, &err);

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	for (uint64_t i = 0; i < n && rc == 0; i++)
		rc = run_once(&actions, argv + 2, &err);
	posix_spawn_file_actions_destroy(&actions);
	if (rc < 0)
		fprintf(stderr, "bench-spawn: %s\n", err.msg);
	return rc < 0;
}
