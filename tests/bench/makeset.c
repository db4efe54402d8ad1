/* SPDX-License-Identifier: Apache-2.0 */

/* Writes a change set in which every other block of 4 KiB changed:
 *   bench-makeset FILE EXTENTS
 * The volume is as large as that needs; its size is printed. For benchmarks of
 * sets larger than one wants to write data for. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "block/set.h"

#define GRANULE 4096ULL

static int write_bytes(void *arg, const void *data, size_t n, struct cairn_err *err)
{
	const int *fd = arg;

	return cairn_write_full(*fd, data, n) < 0 ? cairn_err_sys(err, errno, "write") : 0;
}

static int make(int fd, uint64_t extents, uint64_t size, struct cairn_err *err)
{
	cairn_cleanup(block_set_writer_freep) struct block_set_writer *writer = NULL;
	struct block_set_info info = {
		.volume_size = size, .base_size = size, .granularity = GRANULE};
	int rc = block_set_writer_new(
		&info, (struct block_output){.write = write_bytes, .arg = &fd}, &writer, err);

	for (uint64_t i = 0; i < extents && rc == 0; i++) {
		struct block_extent extent = {.offset = 2 * i * GRANULE, .length = GRANULE};

		rc = block_set_writer_add(writer, &extent, err);
	}
	return rc ? rc : block_set_writer_finish(writer, NULL, err);
}

static int run(int argc, char **argv, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	uint64_t extents, size;
	int rc;

	if (argc != 3)
		return cairn_err_set(err, CAIRN_INVALID, "usage: FILE EXTENTS");
	rc = cairn_parse_u64(argv[2], &extents, err);
	if (rc)
		return rc;
	if (__builtin_mul_overflow(extents, 2 * GRANULE, &size))
		return cairn_err_set(err, CAIRN_RANGE, "too many extents");
	fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", argv[1]);
	rc = make(fd, extents, size, err);
	if (rc == 0)
		printf("%" PRIu64 "\n", size);
	return rc;
}

int main(int argc, char **argv)
{
	struct cairn_err err = {0};

	if (run(argc, argv, &err) < 0) {
		fprintf(stderr, "bench-makeset: %s\n", err.msg);
		return 1;
	}
	return 0;
}
