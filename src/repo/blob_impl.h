/* SPDX-License-Identifier: Apache-2.0 */

/* Steps of blob.h that other files of this directory use individually. */
#ifndef CAIRN_REPO_BLOB_IMPL_H
#define CAIRN_REPO_BLOB_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "repo/blob.h"

struct repo_codec;
struct repo_place;

/* Stores bytes whose hash is known. */
int repo_blob_add(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		  const void *data, size_t n, bool *ret_new, struct cairn_err *err);

/* The place of a blob; codes of repo_blob_get(). */
int repo_blob_place(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		    struct repo_place *ret, struct cairn_err *err);

/* Decrypts place->length sealed bytes (overwritten) to `out`, which has room
 * for repo_place_size(), and checks the hash. */
int repo_blob_open(struct repo_codec *codec, const struct repo_id *id,
		   const struct repo_place *place, uint8_t *sealed, uint8_t *out,
		   struct cairn_err *err);

/* The same for two blobs of one size; the codes go to `rc`, their texts to `errs`. */
struct repo_blob_opening {
	const struct repo_id *id;
	const struct repo_place *place;
	uint8_t *sealed, *out;
};
void repo_blob_open_pair(struct repo_codec *codec, const struct repo_blob_opening openings[2],
			 int rc[2], struct cairn_err errs[2]);

/* Fallback for a blob that could not be read or opened with the code `failed`:
 * returns 0 if another pack has an intact copy, in `out`; else `failed`. */
int repo_blob_get_copy(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
		       uint8_t *out, uint32_t size, int failed);

/* Reads the copy with that number (repo_index_find_copy()) and checks its hash.
 *
 * CAIRN_NOT_FOUND  there are fewer copies
 * CAIRN_DATA_LOSS  it is damaged, or its pack is missing or cut short
 */
int repo_blob_verify_copy(struct repo *repo, enum repo_blob_type type, const struct repo_id *id,
			  unsigned number, struct cairn_err *err);

#endif
