/* SPDX-License-Identifier: Apache-2.0 */

/* Index files: which blob is where. Pure.
 *
 * {"packs":[{"id":…,"blobs":[{"id":…,"type":"data","offset":0,"length":38,
 * "uncompressed_length":6},…]},…]}; a member "supersedes" is an old hint that
 * nobody needs. A member "cairn_lost", of the same form as "packs", names what a
 * repair found to be lost: the sizes are what the next backup needs to cut the same
 * chunks again. Others pass over it.
 */
#ifndef CAIRN_REPO_INDEX_FILE_H
#define CAIRN_REPO_INDEX_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "repo/id.h"
#include "repo/pack_header.h"

struct cairn_err;
struct cairn_buf;

/* As many blobs as restic puts into one file before it begins another. */
#define REPO_INDEX_BLOBS 50000U

/* Limits what a damaged or hostile file can take of memory; two million blobs
 * in one file have 330 MB. */
#define REPO_INDEX_JSON_MAX ((size_t)1 << 30)

/* begin, packs, or begin, packs, lost, packs that are lost; end */
void repo_index_file_begin(struct cairn_buf *out);
void repo_index_file_lost(struct cairn_buf *out);
void repo_index_file_pack(struct cairn_buf *out, const struct repo_id *id,
			  const struct repo_pack_blob *blobs, size_t n);
void repo_index_file_end(struct cairn_buf *out);

struct repo_index_visitor {
	/* A pack begins; then come its blobs. Negative returns end it. */
	int (*pack)(void *arg, const struct repo_id *id, struct cairn_err *err);
	int (*blob)(void *arg, const struct repo_pack_blob *blob, struct cairn_err *err);
	void *arg;
	/* Like `pack`, for one that is lost; NULL: these are passed over. */
	int (*lost)(void *arg, const struct repo_id *id, struct cairn_err *err);
};

/* CAIRN_DATA_LOSS  no index; what was given before that stands */
int repo_index_file_parse(const char *json, size_t n, const struct repo_index_visitor *visitor,
			  struct cairn_err *err);

#endif
