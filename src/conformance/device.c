/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"

#define CHUNK 65536U

static uint8_t byte_at(uint64_t offset, unsigned version)
{
	if (version == 0)
		return 0;
	return (uint8_t)(1 + ((offset * 7 + (offset >> 12) * 31 + version) % 255));
}

int conformance_device_write(int fd, uint64_t offset, uint64_t length, unsigned version,
			     struct cairn_err *err)
{
	uint8_t bytes[CHUNK];

	while (length > 0) {
		size_t n = length < CHUNK ? (size_t)length : CHUNK;

		for (size_t i = 0; i < n; i++)
			bytes[i] = byte_at(offset + i, version);
		if (cairn_pwrite_full(fd, bytes, n, offset) != 0)
			return cairn_err_sys(err, errno, "write to the device");
		offset += n;
		length -= n;
	}
	return 0;
}

int conformance_device_discard(int fd, uint64_t offset, uint64_t length, struct cairn_err *err)
{
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)length) == 0)
		return 0;
	if (errno == EOPNOTSUPP || errno == EINVAL)
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "the device takes no discard");
	return cairn_err_sys(err, errno, "discard on the device");
}

int conformance_device_sync(int fd, struct cairn_err *err)
{
	return fsync(fd) == 0 ? 0 : cairn_err_sys(err, errno, "sync of the device");
}

int conformance_device_size(int fd, uint64_t *ret, struct cairn_err *err)
{
	uint64_t size;

	if (ioctl(fd, BLKGETSIZE64, &size) != 0)
		return cairn_err_sys(err, errno, "size of the device");
	*ret = size;
	return 0;
}
