/* SPDX-License-Identifier: Apache-2.0 */

/* Copies listed blocks from one device to another and then compares the two from
 * end to end: the proof that a listing told everything.
 *
 * For a full listing the target must read as zeros before, for an incremental
 * one it must hold the base. Devices or files of the same size. One thread.
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

/* CAIRN_NOT_FOUND     one of them is not there
 * CAIRN_INVALID       both are the same, or neither a device nor a file
 * CAIRN_PRECONDITION  their sizes differ
 */
int client_mirror_open(struct client_mirror *mirror, const char *source, const char *target,
		       struct cairn_err *err);
void client_mirror_done(struct client_mirror *mirror);

/* Copies what of these blocks is inside the devices; a block may pass their end
 * but not begin there.
 *
 * CAIRN_RANGE  a block begins behind the end
 */
int client_mirror_copy(struct client_mirror *mirror, const struct cairn_block *blocks, size_t n,
		       struct cairn_err *err);

struct client_mirror_result {
	uint64_t compared_bytes;
	uint64_t differing_bytes; /* in blocks of 4096 */
	uint64_t first;           /* offset of the first of them */
};

/* Syncs the target and reads both. 0 when both could be read.
 *
 * CAIRN_CANCELLED  `progress` said so
 */
int client_mirror_compare(struct client_mirror *mirror, const struct store_progress *progress,
			  struct client_mirror_result *ret, struct cairn_err *err);

#endif
