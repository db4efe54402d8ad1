/* SPDX-License-Identifier: Apache-2.0 */

/* Loop devices whose backing file cannot be looked at. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "pool/device/loop_device.h"

#define BACKING_PATH_MAX 4096U
#define POLL_MS          20U

static bool has_path(const char *name, const char *path)
{
	char text[BACKING_PATH_MAX];
	cairn_auto_fd int fd = -1;
	ssize_t n;

	snprintf(text, sizeof(text), "/sys/block/%.20s/loop/backing_file", name);
	fd = open(text, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return strcmp(text, path) == 0;
}

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

int pool_loop_find_path(const char *path, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err)
{
	cairn_cleanup(closedirp) DIR *dir = opendir("/sys/block");
	const struct dirent *entry;

	ret_device[0] = '\0';
	if (!dir)
		return cairn_err_sys(err, errno, "list block devices in /sys");
	while ((entry = readdir(dir)))
		if (strncmp(entry->d_name, "loop", 4) == 0 && has_path(entry->d_name, path)) {
			snprintf(ret_device, DEVICE_PATH_MAX, "/dev/%.20s", entry->d_name);
			return 0;
		}
	return 0;
}

/* The device is open while it is looked at again, so it cannot become another file's. */
static int detach_device(const char *device, const char *path, struct cairn_err *err)
{
	uint64_t deadline = cairn_monotonic_ns() + LOOP_DETACH_WAIT_MS * CAIRN_NS_PER_MS;
	cairn_auto_fd int fd = open(device, O_RDONLY | O_CLOEXEC | O_EXCL);

	if (fd < 0 && errno == EBUSY)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "'%s' is mounted or in use; unmount it first", device);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", device);
	if (!has_path(strrchr(device, '/') + 1, path))
		return 0;
	if (ioctl(fd, LOOP_CLR_FD, 0) < 0 && errno != ENXIO)
		return cairn_err_sys(err, errno, "detach '%s'", device);
	cairn_closep(&fd);
	fd = -1;
	while (has_path(strrchr(device, '/') + 1, path)) {
		if (cairn_monotonic_ns() >= deadline)
			return cairn_err_set(err, CAIRN_PRECONDITION,
					     "'%s' is open in another program", device);
		cairn_sleep_ms(POLL_MS);
	}
	return 0;
}

int pool_loop_detach_path(const char *path, struct cairn_err *err)
{
	for (;;) {
		char device[DEVICE_PATH_MAX];
		int rc = pool_loop_find_path(path, device, err);

		if (rc || !device[0])
			return rc;
		rc = detach_device(device, path, err);
		if (rc)
			return rc;
	}
}
