/* SPDX-License-Identifier: Apache-2.0 */

#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"

#define POLL_FIRST_MS 1
#define POLL_MAX_MS   50

static int lock_try_lock(int fd, uint64_t slot, bool exclusive, bool wait)
{
	struct flock lock = {
		.l_type = exclusive ? F_WRLCK : F_RDLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)slot,
		.l_len = 1,
	};
	int rc;

	do
		rc = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &lock);
	while (rc < 0 && wait && errno == EINTR);
	return rc;
}

/* At 0 bytes free an existing file can still be opened, but O_CREAT may fail. */
static int open_lock_file(int dir_fd, const char *name, bool exclusive, int *ret_fd,
			  struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc = cairn_open_regular(dir_fd, name, O_RDWR, 0, ret_fd, &why);

	if (rc == CAIRN_NOT_FOUND)
		rc = cairn_open_regular(dir_fd, name, O_RDWR | O_CREAT, 0600, ret_fd, &why);
	if (rc && !exclusive && (why.sys_errno == EROFS || why.sys_errno == EACCES))
		rc = cairn_open_regular(dir_fd, name, O_RDONLY, 0, ret_fd, &why);
	if (rc && err)
		*err = why;
	return rc;
}

int cairn_file_lock(int dir_fd, const char *name, uint64_t slot, bool exclusive, uint64_t wait_ms,
		    int *ret_fd, struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() / CAIRN_NS_PER_MS;
	uint64_t pause = POLL_FIRST_MS;
	cairn_auto_fd int fd = -1;
	int rc;

	if (__builtin_add_overflow(deadline, wait_ms, &deadline))
		deadline = UINT64_MAX;
	rc = open_lock_file(dir_fd, name, exclusive, &fd, err);
	if (rc) {
		(void)cairn_err_wrap(err, "lock file");
		return rc;
	}
	while (lock_try_lock(fd, slot, exclusive, wait_ms == UINT64_MAX) < 0) {
		if (errno != EAGAIN && errno != EACCES)
			return cairn_err_sys(err, errno, "lock '%s'", name);
		if (cairn_monotonic_ns() / CAIRN_NS_PER_MS >= deadline)
			return cairn_err_set(err, CAIRN_ABORTED,
					     "another operation holds it; try again later");
		cairn_sleep_ms(pause);
		pause = pause * 2 < POLL_MAX_MS ? pause * 2 : POLL_MAX_MS;
	}
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}
