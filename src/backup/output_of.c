/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/output_of.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

extern char **environ;

static int output_of_spawn(char *const words[], int out, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	int rc = posix_spawn_file_actions_init(&actions);

	if (rc)
		return rc;
	rc = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (!rc)
		rc = posix_spawnp(ret, words[0], &actions, NULL, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

static int output_of_ended(pid_t pid, const char *name, struct cairn_err *err)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return cairn_err_sys(err, errno, "wait for '%s'", name);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' failed (%s %d)", name,
			     WIFEXITED(status) ? "status" : "signal",
			     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int backup_output_of(char *const words[], size_t max, char **ret, struct cairn_err *err)
{
	cairn_auto_free char *text = cairn_alloc(max + 1);
	cairn_auto_fd int in = -1;
	cairn_auto_fd int out = -1;
	int ends[2];
	ssize_t n;
	pid_t pid;
	int rc;

	if (!text)
		return cairn_err_nomem(err, words[0]);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return cairn_err_sys(err, errno, "pipe");
	in = ends[0];
	out = ends[1];
	rc = output_of_spawn(words, out, &pid);
	if (rc)
		return cairn_err_sys(err, rc, "run '%s'", words[0]);
	close(cairn_take_fd(&out));
	n = cairn_read_full(in, text, max + 1);
	rc = n < 0 ? cairn_err_sys(err, errno, "read from '%s'", words[0]) : 0;
	close(cairn_take_fd(&in)); /* a program that keeps printing gets SIGPIPE */
	if (rc || n > (ssize_t)max) {
		(void)output_of_ended(pid, words[0], NULL);
		explicit_bzero(text, max + 1);
		return rc ? rc : cairn_err_set(err, CAIRN_RANGE, "'%s' prints too much", words[0]);
	}
	rc = output_of_ended(pid, words[0], err);
	if (!rc && memchr(text, '\0', (size_t)n))
		rc = cairn_err_set(err, CAIRN_INVALID, "'%s' prints a NUL byte", words[0]);
	if (rc) {
		explicit_bzero(text, max + 1);
		return rc;
	}
	text[n] = '\0';
	*ret = cairn_take(text);
	return 0;
}
