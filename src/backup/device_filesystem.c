/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/device_filesystem.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"

#define HEAD_BYTES 69632U /* btrfs has its superblock at 64 KiB */

static const struct {
	const char *type; /* prefix of the names in Kubernetes */
	size_t at, n;
	const char *magic;
} filesystems[] = {
	{"ext", 1080, 2, "\x53\xef"},
	{"xfs", 0, 4, "XFSB"},
	{"btrfs", 65600, 8, "_BHRfS_M"},
};

#define FILESYSTEMS (sizeof(filesystems) / sizeof(filesystems[0]))

static bool filesystem_is_known(const char *type)
{
	for (size_t i = 0; type && *type && i < FILESYSTEMS; i++) {
		if (strncmp(type, filesystems[i].type, strlen(filesystems[i].type)) == 0)
			return true;
	}
	return !type || !*type; /* the driver's default */
}

static bool filesystem_is_expected(const json_t *objects)
{
	const json_t *claim = kube_at(objects, "persistentvolumeclaim");
	const char *mode = kube_str(claim, "spec", "volumeMode");

	return claim && (!mode || strcmp(mode, "Filesystem") == 0) &&
	       filesystem_is_known(kube_str(objects, "persistentvolume", "spec", "csi", "fsType"));
}

static bool filesystem_is_in(const char *head, size_t n)
{
	bool zero = true;

	for (size_t i = 0; i < FILESYSTEMS; i++) {
		if (filesystems[i].at + filesystems[i].n <= n &&
		    memcmp(head + filesystems[i].at, filesystems[i].magic, filesystems[i].n) == 0)
			return true;
	}
	for (size_t i = 0; i < n && zero; i++)
		zero = head[i] == 0;
	return zero; /* no pod has used it yet */
}

int backup_device_filesystem(int fd, const json_t *objects, struct cairn_err *err)
{
	cairn_auto_free char *head = NULL;
	size_t n = 0;

	if (!filesystem_is_expected(objects))
		return 0;
	head = cairn_alloc(HEAD_BYTES);
	if (!head)
		return cairn_err_nomem(err, "device");
	while (n < HEAD_BYTES) {
		ssize_t got = pread(fd, head + n, HEAD_BYTES - n, (off_t)n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return cairn_err_sys(err, errno, "read the device");
		if (got == 0)
			break;
		n += (size_t)got;
	}
	if (filesystem_is_in(head, n))
		return 0;
	return cairn_err_set(err, CAIRN_PRECONDITION,
			     "the claim is in Filesystem mode, but the device that was made from "
			     "its snapshot holds no filesystem: this driver keeps such volumes in "
			     "another form, which cannot be restored from blocks");
}
