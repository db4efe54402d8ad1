/* SPDX-License-Identifier: Apache-2.0 */

/* The decoder of btrfs's send stream: as given, with the checksums put right
 * (mutation would never get past them), and cut into pieces. However it is cut,
 * the outcome is the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "pool/btrfs/btrfs_stream.h"
#include "pool/btrfs/crc32c.h"

#define HEADER 17U
#define HEAD   10U

struct outcome {
	int rc;
	int ended;
	uint64_t hash;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(void *arg, uint64_t offset, uint64_t length, struct cairn_err *err)
{
	struct outcome *out = arg;

	(void)err;
	if (length == 0 || offset + length < offset)
		abort();
	out->hash = (out->hash ^ offset) * 0x100000001b3ULL;
	out->hash = (out->hash ^ length) * 0x100000001b3ULL;
	return 0;
}

static struct outcome decode(const uint8_t *data, size_t size, size_t piece)
{
	struct outcome out = {0};
	struct stream *stream = NULL;
	struct stream_sink sink = {.range = take, .arg = &out};

	if (btrfs_stream_new("disk", sink, &stream, NULL) != 0)
		abort();
	for (size_t at = 0; at < size && out.rc == 0; at += piece) {
		size_t n = size - at < piece ? size - at : piece;

		out.rc = btrfs_stream_feed(stream, data + at, n, NULL);
	}
	out.ended = btrfs_stream_ended(stream);
	btrfs_stream_free(stream);
	return out;
}

static void decode_both(const uint8_t *data, size_t size)
{
	struct outcome whole = decode(data, size, size ? size : 1);
	struct outcome cut = decode(data, size, 7);

	if (whole.rc != cut.rc || whole.ended != cut.ended || whole.hash != cut.hash)
		abort();
}

static void repair(uint8_t *data, size_t size)
{
	for (size_t at = HEADER; at + HEAD <= size;) {
		uint32_t len = (uint32_t)data[at] | (uint32_t)data[at + 1] << 8 |
			       (uint32_t)data[at + 2] << 16 | (uint32_t)data[at + 3] << 24;
		uint32_t crc;

		if (len > size - at - HEAD)
			return;
		memset(data + at + 6, 0, 4);
		crc = btrfs_crc32c_raw(0, data + at, HEAD + len);
		for (int i = 0; i < 4; i++)
			data[at + 6 + (size_t)i] = (uint8_t)(crc >> 8 * i);
		at += HEAD + len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		return 0;
	decode_both(data, size);
	memcpy(copy, data, size);
	repair(copy, size);
	decode_both(copy, size);
	free(copy);
	return 0;
}
