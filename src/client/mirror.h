/* SPDX-License-Identifier: Apache-2.0 */

/* Copies listed blocks from one device to another and then compares the two completely,
 * which proves that a listing reported every change.
 *
 * Before a full listing the target must read as zeros, before an incremental one it must
 * contain the base. Works on devices or files of equal size. One thread.
 */
#ifndef CAIRN_CLIENT_MIRROR_H
#define CAIRN_CLIENT_MIRROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_block;
struct cairn_err;
struct store_progress;

struct client_mirror {
	const char *source_path, *target_path;
	int source, target;
	uint64_t size; /* of both */
	uint64_t copied_bytes;
	uint8_t *buffers; /* two of MIRROR_CHUNK */
};

#define CLIENT_MIRROR_INIT                 \
	{                                  \
		.source = -1, .target = -1 \
	}

/* CAIRN_NOT_FOUND     one of them does not exist
 * CAIRN_INVALID       both are the same, or neither a device nor a file
 * CAIRN_PRECONDITION  their sizes differ
 */
int client_mirror_open(struct client_mirror *mirror, const char *source, const char *target,
		       struct cairn_err *err);
void client_mirror_done(struct client_mirror *mirror);

/* Copies the parts of these blocks that are inside the devices; a block may extend past
 * their end but not begin there.
 *
 * CAIRN_RANGE  a block begins past the end
 */
int client_mirror_copy(struct client_mirror *mirror, const struct cairn_block *blocks, size_t n,
		       struct cairn_err *err);

struct client_mirror_result {
	uint64_t compared_bytes;
	uint64_t differing_bytes; /* in blocks of 4096 */
	uint64_t first;           /* offset of the first of them */
};

/* Syncs the target and compares both. Returns 0 if both could be read, equal or not.
 *
 * CAIRN_CANCELLED  `progress` cancelled it
 */
int client_mirror_compare(struct client_mirror *mirror, const struct store_progress *progress,
			  struct client_mirror_result *ret, struct cairn_err *err);

#endif
