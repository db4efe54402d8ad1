/* SPDX-License-Identifier: Apache-2.0 */

#include "memory_reader.h"

#include <string.h>

#include "cairntest.h"

struct memory_reader {
	struct store_reader base;
	const uint8_t *bytes;
	uint64_t size;
};

static int memory_read(struct store_reader *base, uint64_t offset, void *buf, size_t n,
		       size_t *ret_n, struct cairn_err *err)
{
	const struct memory_reader *reader = (struct memory_reader *)base;
	uint64_t left = offset >= reader->size ? 0 : reader->size - offset;

	(void)err;
	*ret_n = n < left ? n : left;
	memcpy(buf, reader->bytes + offset, *ret_n);
	return 0;
}

static void memory_free(struct store_reader *reader)
{
	free(reader);
}

struct store_reader *memory_reader_new(const uint8_t *bytes, uint64_t size)
{
	static const struct store_reader_ops ops = {.read = memory_read, .free = memory_free};
	struct memory_reader *reader = calloc(1, sizeof(*reader));

	assert_non_null(reader);
	*reader = (struct memory_reader){.base.ops = &ops, .bytes = bytes, .size = size};
	return &reader->base;
}
