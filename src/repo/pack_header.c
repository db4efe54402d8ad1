/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/pack_header.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/crypt.h"

#define TYPE_COMPRESSED 2 /* in addition to 0 for data and 1 for trees */

static void put_u32(uint8_t *p, uint32_t value)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t pack_header_get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t repo_pack_header_size(const struct repo_pack_blob *blobs, size_t n)
{
	uint64_t size = REPO_SEAL + REPO_PACK_TRAILER;

	for (size_t i = 0; i < n; i++)
		size += blobs[i].plain ? REPO_PACK_ENTRY_MAX : REPO_PACK_ENTRY_MIN;
	return size;
}

void repo_pack_header_encode(const struct repo_pack_blob *blobs, size_t n, struct cairn_buf *out)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t entry[REPO_PACK_ENTRY_MAX];
		size_t len = 5;

		entry[0] = blobs[i].type;
		put_u32(entry + 1, blobs[i].length);
		if (blobs[i].plain) {
			entry[0] |= TYPE_COMPRESSED;
			put_u32(entry + 5, blobs[i].plain);
			len = 9;
		}
		memcpy(entry + len, blobs[i].id.bytes, REPO_ID_SIZE);
		cairn_buf_add(out, entry, len + REPO_ID_SIZE);
	}
}

/* Returns the length of the entry, or 0 if it is invalid. */
static size_t decode_entry(const uint8_t *p, size_t left, struct repo_pack_blob *ret)
{
	size_t len = left > 0 && (p[0] & TYPE_COMPRESSED) ? 9 : 5;

	if (left < len + REPO_ID_SIZE || p[0] > 3)
		return 0;
	ret->type = p[0] & 1;
	ret->length = pack_header_get_u32(p + 1);
	ret->plain = len == 9 ? pack_header_get_u32(p + 5) : 0;
	memcpy(ret->id.bytes, p + len, REPO_ID_SIZE);
	if (ret->length < REPO_SEAL || (len == 9 && ret->plain == 0))
		return 0;
	return len + REPO_ID_SIZE;
}

int repo_pack_header_decode(const uint8_t *header, size_t n, uint64_t body,
			    struct repo_pack_blob **ret_blobs, size_t *ret_n, struct cairn_err *err)
{
	cairn_auto_free struct repo_pack_blob *blobs = NULL;
	uint64_t offset = 0;
	size_t count = 0;

	if (n > REPO_PACK_HEADER_MAX)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "pack header of %zu bytes", n);
	blobs = cairn_calloc(n / REPO_PACK_ENTRY_MIN + 1, sizeof(*blobs));
	if (!blobs)
		return cairn_err_nomem(err, "a pack header");
	for (size_t at = 0, step; at < n; at += step, count++) {
		step = decode_entry(header + at, n - at, &blobs[count]);
		if (step == 0 || offset + blobs[count].length > body || offset > UINT32_MAX)
			return cairn_err_set(err, CAIRN_DATA_LOSS,
					     "entry %zu of the pack header is wrong", count);
		blobs[count].offset = (uint32_t)offset;
		offset += blobs[count].length;
	}
	if (offset != body)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "blobs of the pack header do not fill the pack");
	*ret_blobs = cairn_take(blobs);
	*ret_n = count;
	return 0;
}
