/* SPDX-License-Identifier: Apache-2.0 */

/* The wrapped calls on files, names and mounts. */
#include "faultshim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

WRAP(ssize_t, write, int fd, const void *buf, size_t n)
{
	ON_FD(ssize_t, "write", fd, SYS_write, fd, buf, n);
}

WRAP(ssize_t, writev, int fd, const struct iovec *iov, int n)
{
	ON_FD(ssize_t, "writev", fd, SYS_writev, fd, iov, n);
}

WRAP(ssize_t, pwrite, int fd, const void *buf, size_t n, int64_t offset)
{
	ON_FD(ssize_t, "pwrite", fd, SYS_pwrite64, fd, buf, n, offset);
}
ALIAS(ssize_t, pwrite64, pwrite, int fd, const void *buf, size_t n, int64_t offset);

/* The kernel takes the offset of the vector calls in two halves. */
WRAP(ssize_t, pwritev, int fd, const struct iovec *iov, int n, int64_t offset)
{
	ON_FD(ssize_t, "pwritev", fd, SYS_pwritev, fd, iov, n, offset, 0);
}
ALIAS(ssize_t, pwritev64, pwritev, int fd, const struct iovec *iov, int n, int64_t offset);

WRAP(ssize_t, pwritev2, int fd, const struct iovec *iov, int n, int64_t offset, int flags)
{
	ON_FD(ssize_t, "pwritev2", fd, SYS_pwritev2, fd, iov, n, offset, 0, flags);
}
ALIAS(ssize_t, pwritev64v2, pwritev2, int fd, const struct iovec *iov, int n, int64_t offset,
      int flags);

WRAP(ssize_t, copy_file_range, int in, int64_t *in_offset, int out, int64_t *out_offset, size_t n,
     unsigned flags)
{
	ON_FD(ssize_t, "copy_file_range", out, SYS_copy_file_range, in, in_offset, out, out_offset,
	      n, flags);
}

WRAP(ssize_t, sendfile, int out, int in, int64_t *offset, size_t n)
{
	ON_FD(ssize_t, "sendfile", out, SYS_sendfile, out, in, offset, n);
}
ALIAS(ssize_t, sendfile64, sendfile, int out, int in, int64_t *offset, size_t n);

WRAP(int, fsync, int fd)
{
	ON_FD(int, "fsync", fd, SYS_fsync, fd);
}

WRAP(int, fdatasync, int fd)
{
	ON_FD(int, "fdatasync", fd, SYS_fdatasync, fd);
}

WRAP(int, syncfs, int fd)
{
	ON_FD(int, "syncfs", fd, SYS_syncfs, fd);
}

WRAP(int, sync_file_range, int fd, int64_t offset, int64_t n, unsigned flags)
{
	ON_FD(int, "sync_file_range", fd, SYS_sync_file_range, fd, offset, n, flags);
}

WRAP(int, msync, void *start, size_t n, int flags)
{
	struct call call;

	if (!shim_enter_any(&call, "msync", -1, false, true))
		return -1;
	return (int)shim_leave(&call, syscall(SYS_msync, start, n, flags));
}

WRAP(int, ftruncate, int fd, int64_t size)
{
	ON_FD(int, "ftruncate", fd, SYS_ftruncate, fd, size);
}
ALIAS(int, ftruncate64, ftruncate, int fd, int64_t size);

WRAP(int, truncate, const char *path, int64_t size)
{
	ON_PATH(int, "truncate", AT_FDCWD, path, SYS_truncate, path, size);
}
ALIAS(int, truncate64, truncate, const char *path, int64_t size);

WRAP(int, fallocate, int fd, int mode, int64_t offset, int64_t n)
{
	ON_FD(int, "fallocate", fd, SYS_fallocate, fd, mode, offset, n);
}
ALIAS(int, fallocate64, fallocate, int fd, int mode, int64_t offset, int64_t n);

WRAP(int, posix_fallocate, int fd, int64_t offset, int64_t n)
{
	struct call call;
	int saved = errno;
	long rc = -1;

	if (shim_enter_fd(&call, "posix_fallocate", fd))
		rc = shim_leave(&call, syscall(SYS_fallocate, fd, 0, offset, n));
	rc = rc < 0 ? errno : 0;
	errno = saved;
	return (int)rc;
}
ALIAS(int, posix_fallocate64, posix_fallocate, int fd, int64_t offset, int64_t n);

WRAP(int, renameat2, int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	ON_PATH(int, "rename", to_dir, to, SYS_renameat2, from_dir, from, to_dir, to, flags);
}

WRAP(int, renameat, int from_dir, const char *from, int to_dir, const char *to)
{
	return shim_renameat2(from_dir, from, to_dir, to, 0);
}

WRAP(int, rename, const char *from, const char *to)
{
	return shim_renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

WRAP(int, linkat, int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	ON_PATH(int, "link", to_dir, to, SYS_linkat, from_dir, from, to_dir, to, flags);
}

WRAP(int, link, const char *from, const char *to)
{
	return shim_linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

WRAP(int, symlinkat, const char *text, int dir, const char *path)
{
	ON_PATH(int, "symlink", dir, path, SYS_symlinkat, text, dir, path);
}

WRAP(int, symlink, const char *text, const char *path)
{
	return shim_symlinkat(text, AT_FDCWD, path);
}

WRAP(int, unlinkat, int dir, const char *path, int flags)
{
	ON_PATH(int, flags &AT_REMOVEDIR ? "rmdir" : "unlink", dir, path, SYS_unlinkat, dir, path,
		flags);
}

WRAP(int, unlink, const char *path)
{
	return shim_unlinkat(AT_FDCWD, path, 0);
}

WRAP(int, rmdir, const char *path)
{
	return shim_unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

WRAP(int, remove, const char *path)
{
	struct stat st;
	bool is_dir = fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);

	return shim_unlinkat(AT_FDCWD, path, is_dir ? AT_REMOVEDIR : 0);
}

WRAP(int, mkdirat, int dir, const char *path, mode_t mode)
{
	ON_PATH(int, "mkdir", dir, path, SYS_mkdirat, dir, path, mode);
}

WRAP(int, mkdir, const char *path, mode_t mode)
{
	return shim_mkdirat(AT_FDCWD, path, mode);
}

WRAP(int, fchmod, int fd, mode_t mode)
{
	ON_FD(int, "fchmod", fd, SYS_fchmod, fd, mode);
}

WRAP(int, mount, const char *source, const char *target, const char *type, unsigned long flags,
     const void *data)
{
	ON_PATH(int, "mount", AT_FDCWD, target, SYS_mount, source, target, type, flags, data);
}

WRAP(int, umount2, const char *target, int flags)
{
	ON_PATH(int, "umount", AT_FDCWD, target, SYS_umount2, target, flags);
}

WRAP(int, umount, const char *target)
{
	return shim_umount2(target, 0);
}

/* Opening counts where it may make or empty a file. */
static int open_at(int dir, const char *path, int flags, mode_t mode)
{
	struct call call = {0};

	if ((flags & (O_CREAT | O_TRUNC) || (flags & O_TMPFILE) == O_TMPFILE) &&
	    !shim_enter_path(&call, "open", dir, path))
		return -1;
	return (int)shim_leave(&call, syscall(SYS_openat, dir, path, flags | O_LARGEFILE, mode));
}

static mode_t mode_of(int flags, va_list args)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

WRAP(int, openat, int dir, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return open_at(dir, path, flags, mode);
}
ALIAS(int, openat64, openat, int dir, const char *path, int flags, ...);

WRAP(int, open, const char *path, int flags, ...)
{
	va_list args;
	mode_t mode;

	va_start(args, flags);
	mode = mode_of(flags, args);
	va_end(args);
	return open_at(AT_FDCWD, path, flags, mode);
}
ALIAS(int, open64, open, const char *path, int flags, ...);

/* What _FORTIFY_SOURCE makes of an open() without a mode. */
WRAP(int, __open_2, const char *path, int flags)
{
	return open_at(AT_FDCWD, path, flags, 0);
}
ALIAS(int, __open64_2, __open_2, const char *path, int flags);

WRAP(int, __openat_2, int dir, const char *path, int flags)
{
	return open_at(dir, path, flags, 0);
}
ALIAS(int, __openat64_2, __openat_2, int dir, const char *path, int flags);

WRAP(int, creat, const char *path, mode_t mode)
{
	return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
ALIAS(int, creat64, creat, const char *path, mode_t mode);
