/* SPDX-License-Identifier: Apache-2.0 */

/* The list of blobs at the end of a pack: pure.
 *
 * pack = blobs || sealed header || u32le length of the sealed header. A header
 * entry is type(1) length(4) id(32), or, for a compressed blob, type(1)
 * length(4) plain(4) id(32). Blobs are stored in the header's order from offset
 * 0 on, without gaps.
 */
#ifndef CAIRN_REPO_PACK_HEADER_H
#define CAIRN_REPO_PACK_HEADER_H

#include <stddef.h>
#include <stdint.h>

#include "repo/blob.h"
#include "repo/id.h"

struct cairn_err;
struct cairn_buf;

#define REPO_PACK_HEADER_MAX ((size_t)16 << 20) /* restic reads no more */
#define REPO_PACK_TRAILER    4
#define REPO_PACK_ENTRY_MIN  37
#define REPO_PACK_ENTRY_MAX  41

struct repo_pack_blob {
	struct repo_id id;
	uint32_t offset, length; /* of the sealed bytes */
	uint32_t plain;          /* 0: not compressed */
	uint8_t type;            /* enum repo_blob_type */
};

/* The size of the sealed header in the pack, including its length field. */
uint64_t repo_pack_header_size(const struct repo_pack_blob *blobs, size_t n);

/* Appends the plain header; the trailer is not part of it. */
void repo_pack_header_encode(const struct repo_pack_blob *blobs, size_t n, struct cairn_buf *out);

/* *ret_blobs is owned by the caller. `body` is the number of bytes that the
 * blobs must fill.
 *
 * CAIRN_DATA_LOSS  not a header, or the lengths do not fill the pack
 */
int repo_pack_header_decode(const uint8_t *header, size_t n, uint64_t body,
			    struct repo_pack_blob **ret_blobs, size_t *ret_n,
			    struct cairn_err *err);

#endif
