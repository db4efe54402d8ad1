/* SPDX-License-Identifier: Apache-2.0 */

/* Change sets and their union: size, and CPU time of coding, walking, seeking
 * and uniting.
 *
 *	bench-block DIR CASE [SETS]
 *
 * CASE is "blocks" (1,000,000 random 4 KiB blocks a set) or "extents" (10,000
 * random extents of 1 MiB a set), each on a volume of 1 TiB. The sets are
 * written to DIR, read from there with pread(), and removed. Prints one line
 * "NAME VALUE UNIT" a figure. The union runs in a process of its own, so its
 * peak memory is its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "block/set.h"
#include "block/union.h"

#define VOLUME_SIZE (1ULL << 40)
#define GRANULE     4096ULL
#define GRANULES    (VOLUME_SIZE / GRANULE)
#define SETS_MAX    1000U
#define SEEKS       10000U
#define WALKS       10U

static const struct bench_case {
	const char *name;
	unsigned extents;
	unsigned granules; /* of an extent */
} cases[] = {
	{"blocks", 1000000, 1},
	{"extents", 10000, 256},
};

static const char *dir;
static const struct bench_case *chosen;

__attribute__((noreturn)) static void die(const char *what, const struct cairn_err *err)
{
	fprintf(stderr, "bench-block: %s: %s\n", what, err ? err->msg : strerrordesc_np(errno));
	exit(1);
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static uint64_t random_below(uint64_t *seed, uint64_t n)
{
	uint64_t z = (*seed += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % n;
}

static const char *set_path(unsigned number)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/set-%u", dir, number);
	return path;
}

static int write_fd(void *arg, const void *data, size_t n, struct cairn_err *err)
{
	if (cairn_write_full(*(int *)arg, data, n) < 0)
		return cairn_err_sys(err, errno, "write");
	return 0;
}

static int read_fd(void *arg, uint64_t offset, void *data, size_t n, struct cairn_err *err)
{
	ssize_t got = cairn_pread_full((int)(intptr_t)arg, data, n, offset);

	if (got < 0 || (size_t)got != n)
		return cairn_err_sys(err, errno, "read");
	return 0;
}

static struct block_set_reader *open_set(unsigned number, int *ret_fd)
{
	struct block_set_reader *reader;
	struct cairn_err err = {0};
	int fd = open(set_path(number), O_RDONLY | O_CLOEXEC);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	struct block_input input = {
		.read_at = read_fd, .arg = (void *)(intptr_t)fd, .size = (uint64_t)size};

	if (size < 0)
		die("open", NULL);
	if (block_set_reader_new(input, 0, &reader, &err) < 0)
		die("open", &err);
	*ret_fd = fd;
	return reader;
}

/* Marks random places that an extent of this case can begin at. */
static uint64_t *draw_places(unsigned number)
{
	uint64_t places = GRANULES / chosen->granules, seed = number + 1;
	uint64_t *bits =
		mmap(NULL, places / 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bits == MAP_FAILED)
		die("memory", NULL);
	for (unsigned n = 0; n < chosen->extents;) {
		uint64_t place = random_below(&seed, places);

		n += !(bits[place / 64] >> (place % 64) & 1);
		bits[place / 64] |= 1ULL << (place % 64);
	}
	return bits;
}

static void add_all(struct block_set_writer *writer, const struct block_extent *extents, size_t n,
		    struct cairn_err *err)
{
	for (size_t i = 0; i < n; i++)
		if (block_set_writer_add(writer, &extents[i], err) < 0)
			die("add", err);
}

/* Writes a set; returns what it cost. */
static double make_set(unsigned number)
{
	struct block_set_info info = {
		.volume_size = VOLUME_SIZE, .base_size = VOLUME_SIZE, .granularity = GRANULE};
	struct block_extent *extents = calloc(chosen->extents, sizeof(*extents));
	uint64_t places = GRANULES / chosen->granules, length = chosen->granules * GRANULE;
	uint64_t *bits = draw_places(number);
	struct block_set_writer *writer;
	struct cairn_err err = {0};
	size_t n = 0;
	double begin;
	int fd;

	if (!extents)
		die("memory", NULL);
	for (uint64_t word = 0; word < places / 64; word++)
		for (uint64_t left = bits[word]; left; left &= left - 1) {
			uint64_t place = word * 64 + (uint64_t)__builtin_ctzll(left);

			extents[n++] = (struct block_extent){place * length, length, false};
		}
	munmap(bits, places / 8);
	fd = open(set_path(number), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		die("create", NULL);
	begin = cpu_ms();
	if (block_set_writer_new(&info, (struct block_output){write_fd, &fd}, &writer, &err) < 0)
		die("write", &err);
	add_all(writer, extents, n, &err);
	if (block_set_writer_finish(writer, NULL, &err) < 0)
		die("write", &err);
	block_set_writer_free(writer);
	begin = cpu_ms() - begin;
	close(fd);
	free(extents);
	return begin;
}

static void walk_and_seek(void)
{
	struct block_extent out[1024];
	struct block_set_reader *reader;
	struct cairn_err err = {0};
	uint64_t seed = 99;
	double begin;
	size_t n;
	int fd;

	reader = open_set(0, &fd);
	printf("bytes-per-set %" PRIu64 " B\n", (uint64_t)lseek(fd, 0, SEEK_END));
	begin = cpu_ms();
	for (unsigned i = 0; i < WALKS; i++) {
		if (block_set_reader_seek(reader, 0, &err) < 0)
			die("seek", &err);
		do {
			if (block_set_reader_next(reader, out, 1024, &n, &err) < 0)
				die("walk", &err);
		} while (n > 0);
	}
	printf("walk %.3f ms\n", (cpu_ms() - begin) / WALKS);
	if (block_set_reader_seek(reader, VOLUME_SIZE / 2, &err) < 0)
		die("seek", &err);
	begin = cpu_ms();
	for (unsigned i = 0; i < SEEKS; i++)
		if (block_set_reader_seek(reader, random_below(&seed, VOLUME_SIZE), &err) < 0 ||
		    block_set_reader_next(reader, out, 1, &n, &err) < 0)
			die("seek", &err);
	printf("seek %.3f us\n", (cpu_ms() - begin) * 1000 / SEEKS);
	begin = cpu_ms();
	for (unsigned i = 0; i < SEEKS; i++)
		if (read_fd((void *)(intptr_t)fd, random_below(&seed, 1 << 14), out, 4352, &err) <
		    0)
			die("read", &err);
	printf("seek-of-which-read %.3f us\n", (cpu_ms() - begin) * 1000 / SEEKS);
	block_set_reader_free(reader);
	close(fd);
}

static void unite(unsigned sets)
{
	struct block_union_input inputs[SETS_MAX] = {0};
	struct block_union_spec spec = {
		.inputs = inputs, .n_inputs = sets, .target_size = VOLUME_SIZE};
	uint64_t extents = 0, bytes = 0;
	struct block_extent out[1024];
	struct cairn_err err = {0};
	struct block_union *u;
	double begin = cpu_ms();
	size_t n;
	int fd;

	for (unsigned i = 0; i < sets; i++)
		inputs[i].reader = open_set(i, &fd);
	if (block_union_new(&spec, &u, &err) < 0)
		die("union", &err);
	do {
		if (block_union_next(u, out, 1024, &n, &err) < 0)
			die("union", &err);
		for (size_t i = 0; i < n; i++)
			bytes += out[i].length;
		extents += n;
	} while (n > 0);
	block_union_free(u);
	printf("union %.1f ms\n", cpu_ms() - begin);
	printf("union-extents %" PRIu64 " 1\n", extents);
	printf("union-bytes %" PRIu64 " B\n", bytes);
}

/* Runs a part in a process of its own and returns its peak memory in KiB. */
static long run_apart(void (*part)(unsigned), unsigned arg)
{
	struct rusage usage;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		die("fork", NULL);
	if (pid == 0) {
		part(arg);
		exit(0);
	}
	if (wait4(pid, &status, 0, &usage) < 0 || status != 0)
		exit(1);
	return usage.ru_maxrss;
}

static void make_sets(unsigned sets)
{
	double ms = 0;

	for (unsigned i = 0; i < sets; i++)
		ms += make_set(i);
	printf("encode %.3f ms\n", ms / sets);
}

int main(int argc, char **argv)
{
	uint64_t sets = 100;

	for (size_t i = 0; argc >= 3 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[2], cases[i].name) == 0)
			chosen = &cases[i];
	if (!chosen || (argc == 4 && cairn_parse_u64(argv[3], &sets, NULL) < 0) || argc > 4 ||
	    sets < 1 || sets > SETS_MAX) {
		fprintf(stderr, "usage: bench-block DIR blocks|extents [SETS]\n");
		return 2;
	}
	dir = argv[1];
	run_apart(make_sets, (unsigned)sets);
	walk_and_seek();
	printf("union-peak-memory %ld KiB\n", run_apart(unite, (unsigned)sets));
	for (unsigned i = 0; i < sets; i++)
		unlink(set_path(i));
	return 0;
}
