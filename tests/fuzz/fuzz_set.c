/* SPDX-License-Identifier: Apache-2.0 */

/* The decoder of change sets.
 *
 * The first byte says what to do with the rest: even, it is taken as a file as
 * it stands; odd, its checksums are made right first, so that what lies behind
 * them is reached too. Whatever the reader accepts must be possible, must read
 * the same from every offset, and must be what the writer makes of it.
 */
#include <stdlib.h>
#include <string.h>

#include "block/checksum.h"
#include "block/set.h"
#include "block/set_format.h"
#include "block_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EXTENTS_MAX 4096U

static void must(bool condition)
{
	if (!condition)
		abort();
}

static void seal(uint8_t *p, size_t n)
{
	uint8_t *footer = p + n - SET_FOOTER_SIZE;
	uint64_t index_offset = set_get(footer + 32, 8), at = SET_HEADER_SIZE;

	if (index_offset > n - SET_FOOTER_SIZE)
		return;
	memcpy(p, "CRNCBT\1\0", 8);
	set_put(p + 32, block_checksum(p, 32), 8);
	while (at + SET_BLOCK_HEADER_SIZE <= index_offset) {
		uint64_t length = SET_BLOCK_HEADER_SIZE + set_get(p + at + 8, 2);

		if (length > index_offset - at)
			break;
		set_put(p + at, block_checksum(p + at + 8, length - 8), 8);
		at += length;
	}
	if (index_offset >= SET_HEADER_SIZE)
		set_put(footer + 48,
			block_checksum(p + index_offset, n - SET_FOOTER_SIZE - index_offset), 8);
	memcpy(footer + 56, p + 32, 8);
	set_put(footer + 64, block_checksum(footer, 64), 8);
	memcpy(footer + 72, "CRNCBEND", 8);
}

static void check_extents(const struct block_set_info *info, const struct block_extent *extents,
			  size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t end = block_extent_end(&extents[i]);

		must(extents[i].length > 0 && end <= info->volume_size);
		must(extents[i].offset % info->granularity == 0);
		must(end % info->granularity == 0 || end == info->volume_size);
		must(i == 0 || block_extent_end(&extents[i - 1]) < extents[i].offset ||
		     (block_extent_end(&extents[i - 1]) == extents[i].offset &&
		      extents[i - 1].zero != extents[i].zero));
	}
}

static void check_seek(struct block_set_reader *reader, const struct block_extent *extents,
		       size_t n, uint64_t offset)
{
	struct block_extent one = {0};
	size_t i = 0, got = 0;

	while (i < n && block_extent_end(&extents[i]) <= offset)
		i++;
	must(block_set_reader_seek(reader, offset, NULL) == 0);
	must(block_set_reader_next(reader, &one, 1, &got, NULL) == 0);
	must(got == (i < n));
	must(got == 0 || (one.offset == extents[i].offset && one.length == extents[i].length &&
			  one.zero == extents[i].zero));
}

/* Writing the same extents gives the same bytes. */
static void check_canonical(const struct mem_file *file, const struct block_set_info *info,
			    const struct block_extent *extents, size_t n)
{
	struct block_set_writer *writer = NULL;
	struct mem_file again = {0};

	must(block_set_writer_new(info, mem_file_output(&again), &writer, NULL) == 0);
	for (size_t i = 0; i < n; i++)
		must(block_set_writer_add(writer, &extents[i], NULL) == 0);
	must(block_set_writer_finish(writer, NULL, NULL) == 0);
	must(again.len == file->len && memcmp(again.data, file->data, file->len) == 0);
	block_set_writer_free(writer);
	mem_file_done(&again);
}

static void read_set(struct mem_file *file)
{
	static struct block_extent extents[EXTENTS_MAX + 300];
	struct block_set_reader *reader = NULL;
	const struct block_set_info *info;
	size_t n = 0, got = 1;
	int rc;

	if (block_set_reader_new(mem_file_input(file), 0, &reader, NULL) < 0)
		return;
	info = block_set_reader_info(reader);
	do {
		rc = block_set_reader_next(reader, extents + n, 300, &got, NULL);
		n += rc == 0 ? got : 0;
	} while (rc == 0 && got > 0 && n < EXTENTS_MAX);
	check_extents(info, extents, n);
	if (rc == 0 && got == 0 && block_set_verify(reader, NULL) == 0) {
		must(n == info->extents);
		for (size_t i = 0; i < n; i += 1 + n / 16) {
			check_seek(reader, extents, n, extents[i].offset);
			check_seek(reader, extents, n, block_extent_end(&extents[i]));
		}
		check_seek(reader, extents, n, info->volume_size);
		check_canonical(file, info, extents, n);
	}
	block_set_reader_free(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct mem_file file = {0};

	if (size == 0)
		return 0;
	file.len = file.cap = size - 1;
	file.data = malloc(size);
	if (!file.data)
		return 0;
	memcpy(file.data, data + 1, size - 1);
	if ((data[0] & 1) && file.len >= SET_HEADER_SIZE + SET_FOOTER_SIZE)
		seal(file.data, file.len);
	read_set(&file);
	mem_file_done(&file);
	return 0;
}
