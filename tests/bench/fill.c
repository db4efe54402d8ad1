/* SPDX-License-Identifier: Apache-2.0 */

/* Writes chunks of random data to a file, for benchmarks:
 *   bench-fill FILE SIZE CHUNK COUNT SEED     COUNT distinct chunks at random
 *                                             places below SIZE, in random order
 *   bench-fill FILE SIZE CHUNK COUNT every N  the first COUNT chunks of every
 *                                             N-th, ascending
 * The file is made if need be, set to SIZE, and synced at the end. The same
 * arguments write the same bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"

#define CHUNK_MAX (64U << 20)

struct plan {
	const char *path;
	uint64_t size;
	uint64_t chunk;
	uint64_t count;
	uint64_t seed;
	uint64_t step; /* 0: random places */
};

static uint64_t next_random(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	*state = x;
	return x * 0x2545f4914f6cdd1dULL;
}

static int parse(int argc, char **argv, struct plan *ret, struct cairn_err *err)
{
	struct plan plan = {.seed = 1};
	bool every = argc == 7 && strcmp(argv[5], "every") == 0;
	uint64_t *last = every ? &plan.step : &plan.seed;
	int rc;

	if (argc != 6 && !every)
		return cairn_err_set(err, CAIRN_INVALID,
				     "usage: FILE SIZE CHUNK COUNT SEED | every N");
	plan.path = argv[1];
	if ((rc = cairn_parse_size(argv[2], &plan.size, err)) < 0 ||
	    (rc = cairn_parse_size(argv[3], &plan.chunk, err)) < 0 ||
	    (rc = cairn_parse_u64(argv[4], &plan.count, err)) < 0 ||
	    (rc = cairn_parse_u64(argv[argc - 1], last, err)) < 0)
		return rc;
	if (plan.chunk == 0 || plan.chunk % 8 != 0 || plan.chunk > CHUNK_MAX || plan.seed == 0)
		return cairn_err_set(err, CAIRN_INVALID, "bad chunk size or seed");
	if (plan.count > plan.size / plan.chunk / (every ? plan.step : 1))
		return cairn_err_set(err, CAIRN_RANGE, "more chunks than the file has room for");
	*ret = plan;
	return 0;
}

static int write_chunk(int fd, const struct plan *plan, uint64_t index, uint64_t *random,
		       uint64_t *buf, struct cairn_err *err)
{
	for (uint64_t i = 0; i < plan->chunk / 8; i++)
		buf[i] = next_random(random);
	if (cairn_pwrite_full(fd, buf, plan->chunk, index * plan->chunk) < 0)
		return cairn_err_sys(err, errno, "write '%s'", plan->path);
	return 0;
}

static int fill(int fd, const struct plan *plan, struct cairn_err *err)
{
	uint64_t places = plan->size / plan->chunk;
	uint64_t random = plan->seed * 0x9e3779b97f4a7c15ULL + 1;
	cairn_auto_free uint64_t *buf = cairn_alloc(plan->chunk);
	cairn_auto_free uint8_t *taken = cairn_calloc(places / 8 + 1, 1);

	if (!buf || !taken)
		return cairn_err_nomem(err, "buffers");
	for (uint64_t n = 0; n < plan->count; n++) {
		uint64_t index = n * plan->step;
		int rc;

		while (plan->step == 0) {
			index = next_random(&random) % places;
			if (!(taken[index / 8] & (1U << (index % 8))))
				break;
		}
		taken[index / 8] |= (uint8_t)(1U << (index % 8));
		rc = write_chunk(fd, plan, index, &random, buf, err);
		if (rc < 0)
			return rc;
	}
	if (fsync(fd) < 0)
		return cairn_err_sys(err, errno, "sync '%s'", plan->path);
	return 0;
}

static int run(int argc, char **argv, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	struct plan plan;
	int rc = parse(argc, argv, &plan, err);

	if (rc < 0)
		return rc;
	fd = open(plan.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", plan.path);
	if (ftruncate(fd, (off_t)plan.size) < 0)
		return cairn_err_sys(err, errno, "size of '%s'", plan.path);
	return fill(fd, &plan, err);
}

int main(int argc, char **argv)
{
	struct cairn_err err = {0};

	if (run(argc, argv, &err) < 0) {
		fprintf(stderr, "bench-fill: %s\n", err.msg);
		return 1;
	}
	return 0;
}
