/* SPDX-License-Identifier: Apache-2.0 */

#include "volume_model.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/fs.h>

#include "cairntest.h"

#define SECTORS_PER_BLOCK 8U
#define RUN_BLOCKS        48U

uint64_t volume_model_random(struct volume_model *model, uint64_t below)
{
	uint64_t x = model->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	model->random = x;
	return (x >> 11) % below;
}

static void sector_bytes(uint32_t number, unsigned char out[MODEL_SECTOR])
{
	for (size_t i = 0; i < MODEL_SECTOR; i += sizeof(number))
		memcpy(out + i, &number, sizeof(number));
}

bool model_fits(const uint32_t *sectors, size_t n, const unsigned char *bytes)
{
	unsigned char want[MODEL_SECTOR];

	for (size_t i = 0; i < n; i++) {
		sector_bytes(sectors[i], want);
		if (memcmp(want, bytes + i * MODEL_SECTOR, MODEL_SECTOR) != 0)
			return false;
	}
	return true;
}

uint32_t *model_copy(const struct volume_model *model)
{
	uint32_t *copy = malloc(model->n * sizeof(*copy));

	assert_non_null(copy);
	memcpy(copy, model->sectors, model->n * sizeof(*copy));
	return copy;
}

void model_grow(struct volume_model *model, size_t n)
{
	model->sectors = realloc(model->sectors, n * sizeof(*model->sectors));
	assert_non_null(model->sectors);
	memset(model->sectors + model->n, 0, (n - model->n) * sizeof(*model->sectors));
	model->n = n;
}

/* Writes what the model says of [at, at + n) to the file. */
static void write_through(struct volume_model *model, int fd, size_t at, size_t n)
{
	unsigned char *bytes = malloc(n * MODEL_SECTOR);

	assert_non_null(bytes);
	for (size_t i = 0; i < n; i++)
		sector_bytes(model->sectors[at + i], bytes + i * MODEL_SECTOR);
	assert_int_equal(pwrite(fd, bytes, n * MODEL_SECTOR, (off_t)(at * MODEL_SECTOR)),
			 (ssize_t)(n * MODEL_SECTOR));
	free(bytes);
}

static void write_new(struct volume_model *model, int fd, size_t at, size_t n)
{
	bool alike = volume_model_random(model, 2) == 0;

	for (size_t i = 0; i < n; i++) {
		model->sectors[at + i] = model->next;
		model->next += alike && i + 1 < n ? 0 : 1;
	}
	write_through(model, fd, at, n);
}

static void zero(struct volume_model *model, int fd, size_t at, size_t n, int mode)
{
	memset(model->sectors + at, 0, n * sizeof(*model->sectors));
	if (mode == 0 ||
	    fallocate(fd, mode, (off_t)(at * MODEL_SECTOR), (off_t)(n * MODEL_SECTOR)) < 0)
		write_through(model, fd, at, n);
}

/* Within blocks, as FICLONERANGE asks. */
static void clone_range(struct volume_model *model, int fd, size_t from, size_t to, size_t n)
{
	struct file_clone_range range = {
		.src_fd = fd,
		.src_offset = from * MODEL_SECTOR,
		.src_length = n * MODEL_SECTOR,
		.dest_offset = to * MODEL_SECTOR,
	};

	if (!model->clones || (from < to + n && to < from + n))
		return;
	assert_int_equal(ioctl(fd, FICLONERANGE, &range), 0);
	memcpy(model->sectors + to, model->sectors + from, n * sizeof(*model->sectors));
}

static void write_mapped(struct volume_model *model, int fd, size_t at)
{
	unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
				   (off_t)(at * MODEL_SECTOR));

	assert_true(page != MAP_FAILED);
	for (size_t i = 0; i < SECTORS_PER_BLOCK; i++) {
		model->sectors[at + i] = model->next++;
		sector_bytes(model->sectors[at + i], page + i * MODEL_SECTOR);
	}
	munmap(page, 4096);
}

void model_step(struct volume_model *model, int fd)
{
	size_t blocks = model->n / SECTORS_PER_BLOCK;
	size_t run =
		1 + volume_model_random(model, volume_model_random(model, 4) == 0 ? RUN_BLOCKS : 4);
	size_t at = volume_model_random(model, blocks - run) * SECTORS_PER_BLOCK;
	size_t other = volume_model_random(model, blocks - run) * SECTORS_PER_BLOCK;
	size_t n = run * SECTORS_PER_BLOCK;

	switch (volume_model_random(model, 12)) {
	case 0:
		write_through(model, fd, at, n); /* the same again */
		break;
	case 1:
		zero(model, fd, at, n, 0);
		break;
	case 2:
		zero(model, fd, at, n, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
		break;
	case 3:
		zero(model, fd, at, n, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE);
		break;
	case 4:
		(void)!fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)(at * MODEL_SECTOR),
				 (off_t)(n * MODEL_SECTOR));
		break;
	case 5:
		clone_range(model, fd, at, other, n);
		break;
	case 6:
		write_mapped(model, fd, at);
		break;
	case 7: /* not on the edges of blocks */
		write_new(model, fd, at + volume_model_random(model, n), 1);
		break;
	case 8:
		if (volume_model_random(model, 4) == 0)
			assert_int_equal(fdatasync(fd), 0);
		break;
	default:
		write_new(model, fd, at, n);
	}
}
