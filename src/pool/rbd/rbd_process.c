/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"

#define BOOT_MAX 40U

static bool rbd_process_read(const char *path, char *out, size_t size)
{
	cairn_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	out[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Whether /proc is that of the namespace of this process: in another one the same number is
 * another process. */
static bool proc_is_ours(void)
{
	char self[32];
	ssize_t n = readlink("/proc/self", self, sizeof(self) - 1);
	uint64_t pid = 0;

	if (n <= 0)
		return false;
	self[n] = '\0';
	return cairn_parse_u64(self, &pid, NULL) == 0 && pid == (uint64_t)getpid();
}

/* The boot and the namespace, which are the same for all processes that this one can see. */
static bool host_mark(char out[RBD_PROCESS_MARK_MAX])
{
	char boot[BOOT_MAX];
	struct stat st;

	if (!proc_is_ours() ||
	    !rbd_process_read("/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) ||
	    stat("/proc/self/ns/pid", &st) < 0)
		return false;
	boot[strcspn(boot, "\n")] = '\0';
	snprintf(out, RBD_PROCESS_MARK_MAX, "%s:%llu", boot, (unsigned long long)st.st_ino);
	return true;
}

/* Field 22 of /proc/PID/stat; the name in field 2 may hold anything. False if it cannot be read.
 * *ret_ended: it has ended and was not waited for yet. */
static bool start_time(uint64_t pid, uint64_t *ret, bool *ret_ended)
{
	char path[64], text[1024];
	const char *at;
	char state;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	if (!rbd_process_read(path, text, sizeof(text)))
		return false;
	at = strrchr(text, ')');
	if (!at || at[1] != ' ')
		return false;
	state = at[2];
	for (unsigned field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	*ret_ended = state == 'Z' || state == 'X';
	return at && *at++ == ' ' && cairn_take_u64(&at, ret);
}

void rbd_process_mark(char out[RBD_PROCESS_MARK_MAX])
{
	char host[RBD_PROCESS_MARK_MAX];
	uint64_t started = 0, pid = (uint64_t)getpid();
	bool ended;

	out[0] = '\0';
	if (host_mark(host) && start_time(pid, &started, &ended))
		snprintf(out, RBD_PROCESS_MARK_MAX, "%.70s:%" PRIu64 ":%" PRIu64, host, pid,
			 started);
}

enum rbd_process_state rbd_process_look(const char *mark)
{
	char host[RBD_PROCESS_MARK_MAX];
	uint64_t pid = 0, started = 0, now = 0;
	bool ended = false;
	const char *at;

	if (!host_mark(host))
		return RBD_PROCESS_UNKNOWN;
	at = mark + strlen(host);
	if (strncmp(mark, host, strlen(host)) != 0 || *at++ != ':' || !cairn_take_u64(&at, &pid) ||
	    *at++ != ':' || !cairn_take_u64(&at, &started) || pid > INT_MAX)
		return RBD_PROCESS_UNKNOWN;
	/* A file that cannot be read (descriptors or memory are short) is not a process that ended. */
	if (!start_time(pid, &now, &ended))
		return kill((pid_t)pid, 0) < 0 && errno == ESRCH ? RBD_PROCESS_ENDED
								 : RBD_PROCESS_UNKNOWN;
	return now != started || ended ? RBD_PROCESS_ENDED : RBD_PROCESS_RUNS;
}
