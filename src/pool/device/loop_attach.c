/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "pool/device/loop_device.h"

#define SECTOR_SIZE   512U
#define ATTACH_TRIES  64U /* an attempt fails when another process takes the same device */
#define RETRY_WAIT_MS 5U

/* Parses the number at *text and advances past it and one dot; 0 when there is
 * none. */
static unsigned loop_attach_take_number(const char **text)
{
	unsigned number = 0;

	while (**text >= '0' && **text <= '9' && number < 100000)
		number = number * 10 + (unsigned)(*(*text)++ - '0');
	if (**text == '.')
		(*text)++;
	return number;
}

static bool kernel_at_least(unsigned want_major, unsigned want_minor)
{
	struct utsname name;
	const char *text = name.release;
	unsigned major;
	unsigned minor;

	if (uname(&name) < 0)
		return false;
	major = loop_attach_take_number(&text);
	minor = loop_attach_take_number(&text);
	return major > want_major || (major == want_major && minor >= want_minor);
}

/* A filesystem on the device may change a page while it is being written. With
 * direct I/O such a page reaches btrfs itself, which before Linux 6.15 computed
 * its checksum and wrote it at two different moments: the block could then
 * never be read again. Through the page cache the same write is safe. */
static bool direct_io_is_safe(int file_fd)
{
	struct statfs fs;
	int flags = 0;

	if (fstatfs(file_fd, &fs) < 0)
		return false;
	if (fs.f_type != BTRFS_SUPER_MAGIC || kernel_at_least(6, 15))
		return true;
	return ioctl(file_fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_NOCOW_FL);
}

static void fill_config(const struct loop_spec *spec, int file_fd, struct loop_config *config)
{
	struct stat st;

	*config = (struct loop_config){.fd = (uint32_t)file_fd, .block_size = SECTOR_SIZE};
	if (spec->read_only)
		config->info.lo_flags |= LO_FLAGS_READ_ONLY;
	if (spec->autoclear)
		config->info.lo_flags |= LO_FLAGS_AUTOCLEAR;
	if (spec->size > 0 && fstat(file_fd, &st) == 0 && (uint64_t)st.st_size > spec->size)
		config->info.lo_sizelimit = spec->size;
	if (direct_io_is_safe(file_fd))
		config->info.lo_flags |= LO_FLAGS_DIRECT_IO;
	/* Only an informational label; the kernel keeps the real path
	 * itself. */
	snprintf((char *)config->info.lo_file_name, sizeof(config->info.lo_file_name), "%s",
		 spec->file);
}

static int loop_attach_configure(int fd, struct loop_config *config)
{
	if (ioctl(fd, LOOP_CONFIGURE, config) == 0)
		return 0;
	if (errno != EINVAL || !(config->info.lo_flags & LO_FLAGS_DIRECT_IO))
		return -errno;
	config->info.lo_flags &= ~(uint32_t)LO_FLAGS_DIRECT_IO;
	return ioctl(fd, LOOP_CONFIGURE, config) == 0 ? 0 : -errno;
}

static int open_control(int *ret_fd, struct cairn_err *err)
{
	int fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "this machine has no loop devices (/dev/loop-control)");
	return cairn_err_sys(err, errno, "open '/dev/loop-control'");
}

/* One attempt on the device that is currently free. CAIRN_ABORTED when another
 * process took it first. */
static int try_attach(int control, struct loop_config *config, const struct loop_spec *spec,
		      struct loop_device *ret, int *ret_fd, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	int n = ioctl(control, LOOP_CTL_GET_FREE);
	int rc;

	if (n < 0)
		return cairn_err_sys(err, errno, "get a free loop device");
	snprintf(ret->path, sizeof(ret->path), "/dev/loop%d", n);
	fd = open(ret->path, (spec->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED,
				     "'%s' is missing: a container needs the host's /dev",
				     ret->path);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", ret->path);
	rc = loop_attach_configure(fd, config);
	if (rc == -EBUSY || rc == -EAGAIN || rc == -ENXIO)
		return CAIRN_ABORTED;
	if (rc < 0)
		return cairn_err_sys(err, -rc, "attach '%s' to '%s'", spec->file, ret->path);
	ret->flags = config->info.lo_flags;
	*ret_fd = cairn_take_fd(&fd);
	return 0;
}

int pool_loop_attach(const struct loop_spec *spec, struct loop_device *ret, int *ret_fd,
		     struct cairn_err *err)
{
	cairn_auto_fd int control = -1;
	cairn_auto_fd int file = -1;
	struct loop_device made = {.path = ""};
	struct loop_config config;
	int rc = open_control(&control, err);

	if (rc < 0)
		return rc;
	file = open(spec->file,
		    (spec->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (file < 0)
		return cairn_err_sys(err, errno, "open '%s'", spec->file);
	fill_config(spec, file, &config);
	for (unsigned i = 0; i < ATTACH_TRIES; i++) {
		rc = try_attach(control, &config, spec, &made, ret_fd, err);
		if (rc == 0)
			*ret = made;
		if (rc != CAIRN_ABORTED)
			return rc;
		cairn_sleep_ms(RETRY_WAIT_MS);
	}
	return cairn_err_set(err, CAIRN_ABORTED, "others keep taking the free loop devices");
}
