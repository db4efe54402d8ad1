/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/device/freeze_guard.h"

#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define THAW_TRIES 100U

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The lowest descriptor of ours that is not below `from`, or INT_MAX. */
static int next_kept(const struct freeze_plan *plan, int from)
{
	int next = plan->socket >= from ? plan->socket : INT_MAX;

	for (size_t i = 0; i < plan->n; i++)
		if (plan->mounts[i] >= from && plan->mounts[i] < next)
			next = plan->mounts[i];
	return next;
}

/* Another guard's socket or the write end of a pipe, kept open here, would hide
 * from other processes that our parent has died. */
static void close_all_others(const struct freeze_plan *plan)
{
	int from = 0;

	while (from != INT_MAX) {
		int kept = next_kept(plan, from);

		if (kept > from)
			close_range((unsigned)from, kept == INT_MAX ? UINT_MAX : (unsigned)kept - 1,
				    0);
		from = kept == INT_MAX ? INT_MAX : kept + 1;
	}
}

enum wake {
	WAKE_COMMAND,
	WAKE_PARENT_GONE,
	WAKE_TIME,
};

static enum wake wait_parent(int socket, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = socket, .events = POLLIN};
	char byte;
	int rc;

	do
		rc = poll(&poll_fd, 1, timeout_ms);
	while (rc < 0 && errno == EINTR);
	if (rc == 0)
		return WAKE_TIME;
	return rc > 0 && read(socket, &byte, 1) == 1 ? WAKE_COMMAND : WAKE_PARENT_GONE;
}

static void send_reply(int socket, struct freeze_reply reply)
{
	/* Small enough to be sent atomically; a dead parent needs no reply. */
	(void)send(socket, &reply, sizeof(reply), MSG_NOSIGNAL);
}

/* EINVAL means that it is not frozen. Any other error is retried, because a
 * filesystem must never stay frozen. */
static bool thaw_one(int mount)
{
	const struct timespec pause = {.tv_nsec = 10000000};

	for (unsigned i = 0; i < THAW_TRIES; i++) {
		if (ioctl(mount, FITHAW, 0) == 0)
			return true;
		if (errno == EINVAL)
			return false;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
	}
	return false;
}

/* Thaws the first `n`; false when one of them was no longer frozen. */
static bool freeze_guard_thaw(const struct freeze_plan *plan, size_t n)
{
	bool all_were_frozen = true;

	while (n-- > 0)
		all_were_frozen &= thaw_one(plan->mounts[n]);
	return all_were_frozen;
}

/* Freezes all or none; false when the guard has nothing more to do. */
static bool freeze_all(const struct freeze_plan *plan, uint64_t deadline)
{
	for (size_t i = 0; i < plan->n; i++) {
		struct freeze_reply reply = {.index = (uint32_t)i};

		if (wait_parent(plan->socket, 0) != WAKE_TIME) {
			freeze_guard_thaw(plan, i);
			return false;
		}
		if (now_ms() >= deadline)
			reply.sys_errno = ETIMEDOUT;
		else if (ioctl(plan->mounts[i], FIFREEZE, 0) < 0)
			reply.sys_errno = errno;
		if (reply.sys_errno) {
			freeze_guard_thaw(plan, i);
			send_reply(plan->socket, reply);
			return false;
		}
	}
	return true;
}

static void freeze_guard_hold(const struct freeze_plan *plan, uint64_t deadline)
{
	struct freeze_reply reply = {0};
	uint64_t now = now_ms();
	enum wake wake;

	send_reply(plan->socket, reply);
	wake = wait_parent(plan->socket, now < deadline ? (int)(deadline - now) : 0);
	if (!freeze_guard_thaw(plan, plan->n))
		reply.broken = FREEZE_THAWED;
	if (wake == WAKE_TIME) {
		reply.broken = FREEZE_EXPIRED;
		wake = wait_parent(plan->socket, -1);
	}
	if (wake == WAKE_COMMAND)
		send_reply(plan->socket, reply);
}

_Noreturn void pool_freeze_guard_run(const struct freeze_plan *plan)
{
	uint64_t deadline;

	setsid();
	prctl(PR_SET_NAME, "cairn-freeze");
	close_all_others(plan);
	/* Do not keep the parent's working directory from being unmounted. */
	if (chdir("/") < 0)
		_exit(1);
	deadline = now_ms() + plan->hold_max_ms;
	if (freeze_all(plan, deadline))
		freeze_guard_hold(plan, deadline);
	_exit(0);
}
