/* SPDX-License-Identifier: Apache-2.0 */

/* All blobs of a repository in memory.
 *
 * A repository may hold millions of blobs, so an entry takes 48 bytes, plus
 * four to eleven for the lookup: a hash table of entry numbers with open
 * addressing over entries in blocks that never move. A blob that is in two
 * packs has two entries; the first one found is used unless it is damaged. The
 * index also decides which of several threads stores a blob:
 * repo_index_reserve() assigns it to one of them.
 *
 * Thread-safe.
 */
#ifndef CAIRN_REPO_INDEX_H
#define CAIRN_REPO_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/blob.h"
#include "repo/id.h"
#include "repo/pack_header.h"

struct cairn_err;
struct repo_index;
struct repo_index_cache;

enum repo_pack_state {
	REPO_PACK_GONE,    /* lost: its blobs are not found, only their sizes are known */
	REPO_PACK_OPEN,    /* being filled or sent: its blobs cannot be read yet */
	REPO_PACK_STORED,  /* in the store, in no index file yet */
	REPO_PACK_INDEXED, /* in an index file */
};

/* Where a blob is. */
struct repo_place {
	struct repo_id pack_id;
	enum repo_pack_state state;
	uint32_t pack;
	uint32_t offset, length;
	uint32_t plain; /* 0: not compressed */
};

/* The plain size of a blob. */
uint32_t repo_place_size(const struct repo_place *place);

struct repo_index *repo_index_new(void);
void repo_index_free(struct repo_index *index);
CAIRN_DEFINE_CLEANUP(struct repo_index, repo_index_free);

/* The number of the pack, which is added if it is not known. *ret_known (or
 * NULL) says whether it was. `id` is NULL for a pack that has no id yet. */
int repo_index_pack(struct repo_index *index, const struct repo_id *id, enum repo_pack_state state,
		    uint32_t *ret_pack, bool *ret_known, struct cairn_err *err);
void repo_index_pack_set(struct repo_index *index, uint32_t pack, const struct repo_id *id,
			 enum repo_pack_state state);
bool repo_index_has_pack(struct repo_index *index, const struct repo_id *id);

/* Adds a blob of a pack. A blob that is already known at that place is not
 * added again; `fresh` says that the pack was not known before, which saves
 * that lookup. */
int repo_index_add(struct repo_index *index, uint32_t pack, const struct repo_pack_blob *blob,
		   bool fresh, struct cairn_err *err);

/* Sets *ret_known when the blob is stored or reserved; otherwise it is now
 * reserved for the caller, who must then set its place. */
int repo_index_reserve(struct repo_index *index, enum repo_blob_type type, const struct repo_id *id,
		       uint32_t *ret_entry, bool *ret_known, struct cairn_err *err);
/* The same, but also when the blob is stored: for a second copy that replaces
 * the first. */
int repo_index_reserve_copy(struct repo_index *index, enum repo_blob_type type,
			    const struct repo_id *id, uint32_t *ret_entry, struct cairn_err *err);
void repo_index_settle(struct repo_index *index, uint32_t entry, uint32_t pack, uint32_t offset,
		       uint32_t length, uint32_t plain);

bool repo_index_find(struct repo_index *index, enum repo_blob_type type, const struct repo_id *id,
		     struct repo_place *ret);
/* The plain size of a blob that only packs in the state REPO_PACK_GONE held. */
bool repo_index_find_gone(struct repo_index *index, enum repo_blob_type type,
			  const struct repo_id *id, uint32_t *ret_size);
/* The copies of a blob in turn: number 0 is the one that repo_index_find()
 * returns. */
bool repo_index_find_copy(struct repo_index *index, enum repo_blob_type type,
			  const struct repo_id *id, unsigned number, struct repo_place *ret);

/* The number of the entry that repo_index_find() returns; false when there is
 * none. Used for marking. */
bool repo_index_entry(struct repo_index *index, enum repo_blob_type type, const struct repo_id *id,
		      uint32_t *ret_entry);

/* The entry of repo_index_find_copy(), by number. */
bool repo_index_entry_copy(struct repo_index *index, enum repo_blob_type type,
			   const struct repo_id *id, unsigned number, uint32_t *ret_entry);

uint32_t repo_index_entries(struct repo_index *index);
uint32_t repo_index_packs(struct repo_index *index);

/* Entry and pack by number; false for a reserved entry that was never
 * placed. */
bool repo_index_at(struct repo_index *index, uint32_t entry, struct repo_pack_blob *ret,
		   uint32_t *ret_pack);
enum repo_pack_state repo_index_pack_at(struct repo_index *index, uint32_t pack,
					struct repo_id *ret_id);

/* All entries sorted by pack and offset: those of pack p are order[starts[p]]
 * to order[starts[p + 1] - 1]. Entries that were never placed are left out. The
 * arrays are owned by the caller. */
struct repo_index_order {
	uint32_t *order;
	uint32_t *starts;
	uint32_t packs;
};
int repo_index_sort(struct repo_index *index, struct repo_index_order *ret, struct cairn_err *err);
void repo_index_order_done(struct repo_index_order *order);

/* Attaches a cache, which is searched after the entries in memory; its packs are in the
 * state REPO_PACK_INDEXED. Its entries have no numbers, so code that walks over all entries
 * needs all of them in memory. Takes ownership of the cache. */
int repo_index_attach(struct repo_index *index, struct repo_index_cache *cache,
		      struct cairn_err *err);
/* Detaches all caches: their entries are no longer found; the packs stay
 * known. */
void repo_index_detach(struct repo_index *index);
size_t repo_index_attached(struct repo_index *index);
struct repo_index_cache *repo_index_attached_at(struct repo_index *index, size_t i);

/* Memory used by the index, in bytes. */
size_t repo_index_memory(struct repo_index *index);

#endif
