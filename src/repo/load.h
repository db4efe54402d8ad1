/* SPDX-License-Identifier: Apache-2.0 */

/* Reads index files, and headers of packs. */
#ifndef CAIRN_REPO_LOAD_H
#define CAIRN_REPO_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_id;
struct repo_named;
struct repo_pack_blob;

/* Adds the file's contents to the repository's index. */
int repo_load_index_file(struct repo *repo, const struct repo_id *name, struct cairn_err *err);

/* The blobs of a pack, from its own header; *ret is owned by the caller.
 *
 * CAIRN_DATA_LOSS  damaged or missing
 */
int repo_pack_read_header(struct repo *repo, const struct repo_named *pack,
			  struct repo_pack_blob **ret, size_t *ret_n, struct cairn_err *err);

/* The same from the last `n` of a pack's `size` bytes. If they do not hold the
 * whole header, *ret_need is the number of bytes needed, and *ret is
 * untouched. */
int repo_pack_parse_tail(struct repo *repo, const uint8_t *tail, size_t n, uint64_t size,
			 struct repo_pack_blob **ret, size_t *ret_n, size_t *ret_need,
			 struct cairn_err *err);

/* Reads a pack and reports whether its bytes hash to its name. A size that no pack has is
 * not intact. */
int repo_pack_is_intact(struct repo *repo, const struct repo_named *pack, bool *ret,
			struct cairn_err *err);

/* Adopts the blobs of a pack that is in no index file; the next flush writes it into
 * one. *ret_blobs grows by their number. */
int repo_adopt_pack(struct repo *repo, const struct repo_named *pack, uint64_t *ret_blobs,
		    struct cairn_err *err);

#endif
