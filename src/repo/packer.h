/* SPDX-License-Identifier: Apache-2.0 */

/* Fills packs and sends them.
 *
 * One open pack for data and one for trees. A full one is sent by one of the
 * packer's threads, as many at a time as the store supports; when all are busy,
 * appending waits. Packs that were stored are written into an index file when
 * there are enough of them, when some time has passed, and at a flush.
 *
 * Thread-safe.
 */
#ifndef CAIRN_REPO_PACKER_H
#define CAIRN_REPO_PACKER_H

#include <stddef.h>
#include <stdint.h>

#include "repo/blob.h"
#include "repo/pack_header.h"

struct cairn_err;
struct repo;
struct repo_packer;

/* Maximum number of packs in memory besides the open ones, whatever the store
 * supports. */
#define REPO_PACKS_IN_FLIGHT_MAX 4

/* A pack with more blobs is full, because all of them must fit into one index
 * file. */
#define REPO_PACK_BLOBS_MAX 20000U

/* How long stored packs may be in no index file: it bounds what
 * repo_adopt_packs() must find after a crash. */
#define REPO_INDEX_EVERY_MS ((uint64_t)5 * 60 * 1000)

int repo_packer_new(struct repo *repo, struct repo_packer **ret, struct cairn_err *err);

/* Waits for packs that are being sent; open packs are dropped. Accepts NULL. */
void repo_packer_free(struct repo_packer *packer);

/* A sealed blob. */
struct repo_sealed {
	struct repo_id id;
	uint32_t entry; /* of the index: it gets the place */
	uint32_t plain;
	size_t n; /* sealed bytes */
};

/* Appends sealed blobs, whose bytes follow each other, next to each other: blobs of other threads
 * come between them only where a pack ends. */
int repo_packer_append(struct repo_packer *packer, enum repo_blob_type type,
		       const struct repo_sealed *blobs, size_t n, const uint8_t *bytes,
		       struct cairn_err *err);

/* Registers a pack that is stored but in no index file: the next flush writes
 * it into one. Its blobs are already in the index. `blobs` is copied. */
int repo_packer_adopt(struct repo_packer *packer, uint32_t number, const struct repo_id *id,
		      const struct repo_pack_blob *blobs, size_t n, struct cairn_err *err);

int repo_packer_flush(struct repo_packer *packer, struct cairn_err *err);

#endif
