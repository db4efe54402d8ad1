/* SPDX-License-Identifier: Apache-2.0 */

/* Ways to cut a file on a filesystem with reflinks, and how long each holds writers up:
 *   bench-clonecut whole FROM TO           one FICLONE
 *   bench-clonecut ranges FROM TO BYTES    FICLONERANGE, so much at a time
 *   bench-clonecut second FROM TO          what pool/reflink/twostep.h does under the freeze
 * Prints CPU and wall time of all, and how long writers are held at a time, in microseconds,
 * and how many ranges were cloned ("second": 1 when nobody wrote meanwhile). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "pool/reflink/twostep.h"

struct figures {
	uint64_t longest_ns;
	uint64_t ranges;
};

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * CAIRN_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

static int clone_range(int from, int to, uint64_t offset, uint64_t length, struct figures *figures,
		       struct cairn_err *err)
{
	struct file_clone_range range = {
		.src_fd = from, .src_offset = offset, .src_length = length, .dest_offset = offset};
	uint64_t start = cairn_monotonic_ns(), took;

	if (ioctl(to, FICLONERANGE, &range) < 0)
		return cairn_err_sys(err, errno, "clone a range");
	took = cairn_monotonic_ns() - start;
	figures->longest_ns = took > figures->longest_ns ? took : figures->longest_ns;
	figures->ranges++;
	return 0;
}

static int clone_ranges(int from, int to, uint64_t size, uint64_t step, struct figures *figures,
			struct cairn_err *err)
{
	int rc = ftruncate(to, (off_t)size) < 0 ? cairn_err_sys(err, errno, "size") : 0;

	for (uint64_t at = 0; rc == 0 && at < size; at += step)
		rc = clone_range(from, to, at, size - at < step ? size - at : step, figures, err);
	return rc;
}

/* The writers are held for as long as this takes. */
static int clone_second(int from, int to, struct figures *figures, struct cairn_err *err)
{
	uint64_t start = cairn_monotonic_ns();
	bool done = false;
	int rc = reflink_twostep_end(from, to, &done, err);

	figures->longest_ns = cairn_monotonic_ns() - start;
	figures->ranges = done;
	return rc;
}

static int run(int argc, char **argv, struct cairn_err *err)
{
	cairn_auto_fd int from = -1, to = -1;
	struct figures figures = {0};
	uint64_t cpu, wall, step = 0;
	struct stat st;
	int rc = 0;

	if (argc < 4)
		return cairn_err_set(err, CAIRN_INVALID,
				     "usage: whole|ranges|second FROM TO [BYTES]");
	if (argc > 4 && (rc = cairn_parse_size(argv[4], &step, err)) < 0)
		return rc;
	from = open(argv[2], O_RDONLY | O_CLOEXEC);
	to = open(argv[3], O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (from < 0 || to < 0 || fsync(from) < 0 || fstat(from, &st) < 0)
		return cairn_err_sys(err, errno, "open");
	cpu = cpu_ns();
	wall = cairn_monotonic_ns();
	if (strcmp(argv[1], "whole") == 0)
		rc = clone_range(from, to, 0, (uint64_t)st.st_size, &figures, err);
	else if (strcmp(argv[1], "ranges") == 0 && step > 0)
		rc = clone_ranges(from, to, (uint64_t)st.st_size, step, &figures, err);
	else
		rc = clone_second(from, to, &figures, err);
	if (rc == 0)
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", (cpu_ns() - cpu) / 1000,
		       (cairn_monotonic_ns() - wall) / 1000, figures.longest_ns / 1000,
		       figures.ranges);
	return rc;
}

int main(int argc, char **argv)
{
	struct cairn_err err = {0};

	if (run(argc, argv, &err) < 0) {
		fprintf(stderr, "bench-clonecut: %s\n", err.msg);
		return 1;
	}
	return 0;
}
