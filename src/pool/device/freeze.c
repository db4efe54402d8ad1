/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/device/freeze_guard.h"
#include "pool/device/mounts.h"
#include "pool/device/volume_device.h"

/* Freezing flushes all dirty data first, which may take long on a slow disk. */
#define FREEZE_BEGIN_MAX_MS 120000
#define FREEZE_THAW_MAX_MS  30000

struct device_freeze {
	pid_t guard; /* 0: none was needed */
	int socket;
	int mounts[FREEZE_MOUNTS_MAX];
	const char *names[FREEZE_MOUNTS_MAX]; /* borrowed; used by begin only */
	size_t n;
};

/* Adds the filesystem at `path` unless it is in the list through another mount. */
static int add_mount(struct device_freeze *freeze, uint64_t ids[FREEZE_MOUNTS_MAX],
		     const char *path, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	uint64_t id;
	int rc;

	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", path);
	rc = pool_mounts_filesystem_of(fd, &id, err);
	if (rc < 0)
		return cairn_err_wrap(err, "'%s'", path);
	for (size_t i = 0; i < freeze->n; i++)
		if (ids[i] == id)
			return 0;
	if (freeze->n == FREEZE_MOUNTS_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "more than %u filesystems to freeze",
				     FREEZE_MOUNTS_MAX);
	/* Flush while others may still write, so that little is left to flush
	 * under the freeze. Freezing reports its errors again. */
	(void)syncfs(fd);
	ids[freeze->n] = id;
	freeze->names[freeze->n] = path;
	freeze->mounts[freeze->n++] = cairn_take_fd(&fd);
	return 0;
}

static int start_guard(struct device_freeze *freeze, uint64_t hold_max_ms, struct cairn_err *err)
{
	struct freeze_plan plan = {.n = freeze->n, .hold_max_ms = hold_max_ms};
	sigset_t all;
	sigset_t before;
	int ends[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return cairn_err_sys(err, errno, "socket to the freeze guard");
	plan.socket = ends[1];
	for (size_t i = 0; i < freeze->n; i++)
		plan.mounts[i] = freeze->mounts[i];
	/* The guard inherits the mask: no signal but SIGKILL reaches it, ever. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		pool_freeze_guard_run(&plan);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close(ends[1]);
	if (pid < 0) {
		int saved = errno;

		close(ends[0]);
		return cairn_err_sys(err, saved, "start the freeze guard");
	}
	freeze->guard = pid;
	freeze->socket = ends[0];
	return 0;
}

/* False when no complete reply arrived in that time. */
static bool read_reply(int socket, int timeout_ms, struct freeze_reply *ret)
{
	struct pollfd poll_fd = {.fd = socket, .events = POLLIN};
	int rc;

	do
		rc = poll(&poll_fd, 1, timeout_ms);
	while (rc < 0 && errno == EINTR);
	if (rc <= 0)
		return false;
	return recv(socket, ret, sizeof(*ret), MSG_DONTWAIT) == (ssize_t)sizeof(*ret);
}

/* The guard did not answer: it was killed or stopped. Its socket is closed, so
 * if it resumes it thaws too, which is harmless. It is not killed: in the
 * middle of freezing that would leave its last freeze in place. */
static void thaw_in_its_place(struct device_freeze *freeze)
{
	for (size_t i = freeze->n; i-- > 0;)
		(void)ioctl(freeze->mounts[i], FITHAW, 0);
}

/* Closes the socket; `answered` says that the guard exits by itself at once. */
static void freeze_release(struct device_freeze *freeze, bool answered)
{
	if (freeze->socket >= 0)
		close(freeze->socket);
	if (freeze->guard > 0) {
		if (!answered)
			thaw_in_its_place(freeze);
		while (waitpid(freeze->guard, NULL, answered ? 0 : WNOHANG) < 0 && errno == EINTR)
			;
	}
	for (size_t i = 0; i < freeze->n; i++)
		close(freeze->mounts[i]);
	free(freeze);
}

static int begin_failed(const struct device_freeze *freeze, const struct freeze_reply *reply,
			struct cairn_err *err)
{
	const char *name = reply->index < freeze->n ? freeze->names[reply->index] : "?";

	if (reply->sys_errno == EBUSY)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "'%s' is already frozen by another process", name);
	if (reply->sys_errno == ETIMEDOUT)
		return cairn_err_set(err, CAIRN_ABORTED,
				     "freezing took too long before '%s' had its turn", name);
	return cairn_err_sys(err, reply->sys_errno, "freeze '%s'", name);
}

static int freeze_begin(struct device_freeze *freeze, uint64_t hold_max_ms, bool *ret_answered,
			struct cairn_err *err)
{
	struct freeze_reply reply;
	int rc = start_guard(freeze, hold_max_ms, err);

	if (rc < 0)
		return rc;
	if (!read_reply(freeze->socket, FREEZE_BEGIN_MAX_MS, &reply))
		return cairn_err_set(err, CAIRN_ABORTED, "the freeze guard did not answer");
	*ret_answered = true;
	return reply.sys_errno ? begin_failed(freeze, &reply, err) : 0;
}

int pool_device_freeze_begin_for(const char *const mounts[], size_t n, uint64_t hold_max_ms,
				 struct device_freeze **ret, struct cairn_err *err)
{
	struct device_freeze *freeze = cairn_calloc(1, sizeof(*freeze));
	uint64_t ids[FREEZE_MOUNTS_MAX] = {0};
	bool answered = false;
	int rc = 0;

	if (!freeze)
		return cairn_err_nomem(err, "freeze");
	freeze->socket = -1;
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = add_mount(freeze, ids, mounts[i], err);
	if (rc == 0 && freeze->n > 0)
		rc = freeze_begin(freeze, hold_max_ms, &answered, err);
	if (rc < 0) {
		freeze_release(freeze, answered);
		return rc;
	}
	*ret = freeze;
	return 0;
}

int pool_device_freeze_begin(const char *const mounts[], size_t n, struct device_freeze **ret,
			     struct cairn_err *err)
{
	return pool_device_freeze_begin_for(mounts, n, FREEZE_HOLD_MAX_MS, ret, err);
}

int pool_device_freeze_end(struct device_freeze *freeze, struct cairn_err *err)
{
	struct freeze_reply reply = {0};
	bool answered = true;

	if (freeze->guard > 0)
		answered = send(freeze->socket, "t", 1, MSG_NOSIGNAL) == 1 &&
			   read_reply(freeze->socket, FREEZE_THAW_MAX_MS, &reply);
	freeze_release(freeze, answered);
	if (!answered)
		return cairn_err_set(err, CAIRN_ABORTED,
				     "the freeze guard was killed; the freeze may not have held");
	if (reply.broken == FREEZE_EXPIRED)
		return cairn_err_set(err, CAIRN_ABORTED,
				     "the filesystems could not be held frozen that long");
	if (reply.broken == FREEZE_THAWED)
		return cairn_err_set(err, CAIRN_ABORTED,
				     "another process thawed a filesystem meanwhile");
	return 0;
}

int pool_device_thaw(const char *device, struct cairn_err *err)
{
	cairn_auto_free char *mount = NULL;
	cairn_auto_fd int fd = -1;
	int rc = pool_device_mount_point(device, &mount, err);

	if (rc < 0 || !mount)
		return rc;
	fd = open(mount, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", mount);
	if (ioctl(fd, FITHAW, 0) < 0 && errno != EINVAL)
		return cairn_err_sys(err, errno, "thaw '%s'", mount);
	return 0;
}

void pool_device_freeze_free(struct device_freeze *freeze)
{
	if (freeze)
		(void)pool_device_freeze_end(freeze, NULL);
}
