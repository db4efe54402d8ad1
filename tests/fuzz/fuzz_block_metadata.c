/* SPDX-License-Identifier: Apache-2.0 */

/* A stream of block-metadata messages: the first two bytes are the request's
 * limits, then each message has its length in front. What the scan accepts,
 * protobuf-c must read the same, and writing it again must be accepted too. */

#include <stdint.h>
#include <stdlib.h>

#include "block/extent.h"
#include "csi_metadata.pb-c.h"
#include "proto/block_metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TUPLES_MAX 4096

struct list {
	struct block_extent tuples[TUPLES_MAX];
	size_t n;
};

static void require(int holds)
{
	if (!holds)
		abort();
}

/* Without a sink the scan guesses the layout of tuples; the result must be the same. */
static void require_same(const struct proto_block_scan *a, const struct proto_block_scan *b)
{
	require(a->messages == b->messages && a->tuples == b->tuples &&
		a->bytes_reported == b->bytes_reported && a->end == b->end &&
		a->capacity == b->capacity && a->type == b->type &&
		a->fixed_length == b->fixed_length && a->lengths_differ == b->lengths_differ);
}

static int collect(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct list *list = arg;

	(void)err;
	require(extent->length > 0);
	require(list->n == 0 || extent->offset >= block_extent_end(&list->tuples[list->n - 1]));
	if (list->n < TUPLES_MAX)
		list->tuples[list->n++] = *extent;
	return 0;
}

static void compare(const struct list *list, const struct proto_block_scan *scan,
		    const uint8_t *data, size_t n)
{
	Csi__V1__GetMetadataDeltaResponse *m =
		csi__v1__get_metadata_delta_response__unpack(NULL, n, data);

	if (!m) /* protobuf-c does not know groups */
		return;
	require(m->n_block_metadata == list->n || list->n == TUPLES_MAX);
	require((uint64_t)m->volume_capacity_bytes == scan->capacity);
	require((uint32_t)m->block_metadata_type == scan->type);
	for (size_t i = 0; i < list->n; i++) {
		require((uint64_t)m->block_metadata[i]->byte_offset == list->tuples[i].offset);
		require((uint64_t)m->block_metadata[i]->size_bytes == list->tuples[i].length);
	}
	csi__v1__get_metadata_delta_response__free_unpacked(m, NULL);
}

static void write_again(const struct list *list, const struct proto_block_scan *scan)
{
	static uint8_t out[PROTO_BLOCK_ROOM(TUPLES_MAX)];
	struct proto_block_scan again = {0};
	struct proto_block_writer w;

	proto_block_begin(&w, out, sizeof(out), (enum proto_block_type)scan->type, scan->capacity);
	for (size_t i = 0; i < list->n; i++)
		require(proto_block_add(&w, list->tuples[i].offset, list->tuples[i].length));
	require(proto_block_scan(&again, out, proto_block_len(&w), NULL, NULL) == 0);
	require(again.tuples == list->n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct list list;
	struct proto_block_scan scan = {0}, guessing;

	if (size < 2)
		return 0;
	scan.max_results = data[0];
	scan.starting_offset = (uint64_t)data[1] << 10;
	guessing = scan;
	data += 2;
	size -= 2;
	while (size > 0) {
		size_t n = data[0] < size - 1 ? data[0] : size - 1;
		struct block_sink sink = {.emit = collect, .arg = &list};

		int rc;

		list.n = 0;
		rc = proto_block_scan(&scan, data + 1, n, &sink, NULL);
		require(proto_block_scan(&guessing, data + 1, n, NULL, NULL) == rc);
		require_same(&guessing, &scan);
		if (rc < 0)
			return 0;
		compare(&list, &scan, data + 1, n);
		write_again(&list, &scan);
		data += 1 + n;
		size -= 1 + n;
	}
	return 0;
}
