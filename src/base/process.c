/* SPDX-License-Identifier: Apache-2.0 */

#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

#define SAID_MAX 200 /* bytes kept from the end of its standard error, which has the reason */

extern char **environ;

static int process_start(const char *const argv[], int stderr_fd, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	char *const *args;
	int rc;

	/* posix_spawnp() does not write to argv; its prototype predates const. */
	memcpy(&args, &argv, sizeof(args));
	rc = posix_spawn_file_actions_init(&actions);
	if (rc)
		return rc;
	rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (!rc)
		rc = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&actions, stderr_fd, 2);
	if (!rc)
		rc = posix_spawnp(ret_pid, argv[0], &actions, NULL, args, environ);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

/* Reads to the end and keeps the last SAID_MAX - 1 bytes, as one line. */
static void process_collect(int fd, char said[SAID_MAX])
{
	char chunk[512];
	size_t len = 0;

	for (;;) {
		ssize_t got = read(fd, chunk, sizeof(chunk));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		for (ssize_t i = 0; i < got; i++) {
			if (len == SAID_MAX - 1)
				memmove(said, said + 1, --len);
			said[len++] = (unsigned char)chunk[i] < 0x20 ? ' ' : chunk[i];
		}
	}
	while (len > 0 && said[len - 1] == ' ')
		len--;
	said[len] = '\0';
}

int cairn_run(const char *const argv[], struct cairn_err *err)
{
	return cairn_run_up_to(argv, 0, err);
}

int cairn_run_up_to(const char *const argv[], int worst, struct cairn_err *err)
{
	cairn_auto_fd int read_end = -1;
	char said[SAID_MAX];
	int ends[2];
	pid_t pid;
	int status;
	int rc;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return cairn_err_sys(err, errno, "pipe");
	read_end = ends[0];
	rc = process_start(argv, ends[1], &pid);
	close(ends[1]);
	if (rc == ENOENT)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "program '%s' is not installed",
				     argv[0]);
	if (rc)
		return cairn_err_sys(err, rc, "start '%s'", argv[0]);
	process_collect(read_end, said);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return cairn_err_sys(err, errno, "wait for '%s'", argv[0]);
	if (WIFSIGNALED(status))
		return cairn_err_set(err, CAIRN_INTERNAL, "%s was ended by signal %d", argv[0],
				     WTERMSIG(status));
	if (WEXITSTATUS(status) > worst)
		return cairn_err_set(err, CAIRN_INTERNAL, "%s failed with status %d: %s", argv[0],
				     WEXITSTATUS(status), said);
	return 0;
}
