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

struct repo_names;

/* Adds the contents of these index files to the repository's index, with several requests at a
 * time. */
int repo_load_index_names(struct repo *repo, const struct repo_names *names, struct cairn_err *err);

/* The same for index files that are too large for memory together (more than repo->load_part):
 * they are read in parts, each of which becomes a file of the local cache, and the merged file is
 * attached to the index. Then `names` is emptied. Without a cache directory, with lost packs or
 * if something cannot be written, `names` stays as it is, to be loaded into memory.
 *
 * CAIRN_DATA_LOSS  an index file is damaged
 */
int repo_load_index_parts(struct repo *repo, struct repo_names *names, struct cairn_err *err);

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

/* Reads a whole pack, whose size the caller has checked; the data is the caller's.
 * *ret_intact: its bytes hash to its name. */
int repo_pack_read(struct repo *repo, const struct repo_named *pack, uint8_t **ret,
		   bool *ret_intact, struct cairn_err *err);

/* Reads a pack and reports whether its bytes hash to its name. A size that no pack has is
 * not intact. */
int repo_pack_is_intact(struct repo *repo, const struct repo_named *pack, bool *ret,
			struct cairn_err *err);

/* Adopts the blobs of a pack that is in no index file; the next flush writes it into
 * one. *ret_blobs grows by their number. */
int repo_adopt_pack(struct repo *repo, const struct repo_named *pack, uint64_t *ret_blobs,
		    struct cairn_err *err);

/* CAIRN_ABORTED if a pack that repo_adopt_packs() found is no longer in the store. */
int repo_adopted_verify(struct repo *repo, struct cairn_err *err);

#endif
