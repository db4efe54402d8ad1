/* SPDX-License-Identifier: Apache-2.0 */

/* Copies blobs into new packs. */
#ifndef CAIRN_REPO_REPACK_H
#define CAIRN_REPO_REPACK_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_pack_blob;

/* Puts copies of these blobs of pack `pack`, ordered by offset, into the open
 * packs. Each is verified first; the compressed bytes are reused.
 *
 * CAIRN_DATA_LOSS  one is damaged
 */
int repo_repack(struct repo *repo, uint32_t pack, const struct repo_pack_blob *blobs, size_t n,
		struct cairn_err *err);

/* Opens and verifies a blob, of which `sealed` (overwritten) has the bytes as they are in a pack,
 * and puts a copy of it into the open pack.
 *
 * CAIRN_DATA_LOSS  it is damaged; or the code of an earlier failure (repo_failed())
 */
int repo_repack_blob(struct repo *repo, const struct repo_pack_blob *blob, uint8_t *sealed,
		     struct cairn_err *err);

#endif
