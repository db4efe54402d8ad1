/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/device/open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"

/* The kernel refuses a read lease while a writer has the file open. If the file is
 * opened for writing while the lease is held, the kernel sends a signal: choose one that
 * is ignored by default, since SIGIO would end the process. A write lease would detect
 * readers too, but a process that opens the file meanwhile would fail or wait. */
enum opened pool_open_files_for_writing(const char *path)
{
	cairn_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fcntl(fd, F_SETSIG, SIGURG) < 0)
		return OPENED_UNKNOWN;
	if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
		return errno == EAGAIN ? OPENED : OPENED_UNKNOWN;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return OPENED_NOT;
}

/* One byte far beyond the data, because other programs have their own locks on such
 * files. */
#define READER_BYTE (1LL << 62)

void pool_open_files_mark_reader(int fd)
{
	struct flock lock = {
		.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = READER_BYTE, .l_len = 1};

	(void)fcntl(fd, F_OFD_SETLK, &lock);
}

bool pool_open_files_has_reader(const char *path)
{
	cairn_auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = READER_BYTE, .l_len = 1};

	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}
