/* SPDX-License-Identifier: Apache-2.0 */

/* Index files: the places of blobs. Pure.
 *
 * {"packs":[{"id":…,"blobs":[{"id":…,"type":"data","offset":0,"length":38,
 * "uncompressed_length":6},…]},…]}; a member "supersedes" is obsolete and ignored.
 * A member "cairn_lost", of the same form as "packs", lists blobs that a repair
 * found to be lost: the next backup needs their sizes to cut the same chunks again.
 * Other programs ignore it.
 */
#ifndef CAIRN_REPO_INDEX_FILE_H
#define CAIRN_REPO_INDEX_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "repo/id.h"
#include "repo/pack_header.h"

struct cairn_err;
struct cairn_buf;

/* Number of blobs per file, as in restic. */
#define REPO_INDEX_BLOBS 50000U

/* Limits the memory that a damaged or hostile file can take; two million blobs
 * in one file have 330 MB. */
#define REPO_INDEX_JSON_MAX ((size_t)1 << 30)

/* Call begin, packs, optionally lost and the lost packs, then end. */
void repo_index_file_begin(struct cairn_buf *out);
void repo_index_file_lost(struct cairn_buf *out);
void repo_index_file_pack(struct cairn_buf *out, const struct repo_id *id,
			  const struct repo_pack_blob *blobs, size_t n);
void repo_index_file_end(struct cairn_buf *out);

struct repo_index_visitor {
	/* A pack begins; its blobs follow. A negative return ends the
	 * parsing. */
	int (*pack)(void *arg, const struct repo_id *id, struct cairn_err *err);
	int (*blob)(void *arg, const struct repo_pack_blob *blob, struct cairn_err *err);
	void *arg;
	/* Like `pack`, for a lost one; NULL: these are skipped. */
	int (*lost)(void *arg, const struct repo_id *id, struct cairn_err *err);
};

/* CAIRN_DATA_LOSS  not an index; entries reported before the error remain
 * valid */
int repo_index_file_parse(const char *json, size_t n, const struct repo_index_visitor *visitor,
			  struct cairn_err *err);

#endif
