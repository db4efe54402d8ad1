/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/index.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "repo/crypt.h"
#include "repo/index_impl.h"

#define BLOCK_SHIFT   13
#define BLOCK_ENTRIES (1U << BLOCK_SHIFT)
#define ENTRIES_MAX   (UINT32_MAX - 1)
#define PACK_NOWHERE  (UINT32_MAX >> 1) /* reserved, not stored yet */
#define FIRST_SLOTS   1024U

uint32_t repo_place_size(const struct repo_place *place)
{
	return place->plain ? place->plain : place->length - REPO_SEAL;
}

struct repo_index *repo_index_new(void)
{
	struct repo_index *index = cairn_calloc(1, sizeof(*index));

	if (!index)
		return NULL;
	_Static_assert(sizeof(struct index_entry) == 48, "an entry stays small");
	pthread_rwlock_init(&index->lock, NULL);
	return index;
}

void repo_index_free(struct repo_index *index)
{
	if (!index)
		return;
	repo_index_detach(index);
	for (size_t i = 0; i < (index->entries + BLOCK_ENTRIES - 1) >> BLOCK_SHIFT; i++)
		free(index->blocks[i]);
	free(index->blocks);
	free(index->packs);
	free(index->by_blob.slots);
	free(index->by_pack.slots);
	pthread_rwlock_destroy(&index->lock);
	free(index);
}

static struct index_entry *entry_at(const struct repo_index *index, uint32_t i)
{
	return &index->blocks[i >> BLOCK_SHIFT][i & (BLOCK_ENTRIES - 1)];
}

/* Ids are hashes already. */
static size_t index_slot_of(const struct index_table *table, const struct repo_id *id)
{
	uint64_t hash;

	memcpy(&hash, id->bytes, sizeof(hash));
	return (size_t)hash & (table->n - 1);
}

static void table_put(struct index_table *table, const struct repo_id *id, uint32_t number)
{
	size_t slot = index_slot_of(table, id);

	while (table->slots[slot])
		slot = (slot + 1) & (table->n - 1);
	table->slots[slot] = number + 1;
	table->used++;
}

/* Makes space for one more entry, so that the table stays at most three quarters full.
 * `id_of` returns the id of a number, for rehashing. */
static bool table_grow(struct index_table *table, const struct repo_index *index,
		       const struct repo_id *(*id_of)(const struct repo_index *, uint32_t))
{
	struct index_table larger = {.n = table->n ? table->n * 2 : FIRST_SLOTS};

	if ((table->used + 1) * 4 <= table->n * 3)
		return true;
	larger.slots = cairn_calloc(larger.n, sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (size_t i = 0; i < table->n; i++)
		if (table->slots[i])
			table_put(&larger, id_of(index, table->slots[i] - 1), table->slots[i] - 1);
	free(table->slots);
	*table = larger;
	return true;
}

static const struct repo_id *blob_id_of(const struct repo_index *index, uint32_t i)
{
	return &entry_at(index, i)->id;
}

static const struct repo_id *pack_id_of(const struct repo_index *index, uint32_t i)
{
	return &index->packs[i].id;
}

static bool find_pack(const struct repo_index *index, const struct repo_id *id, uint32_t *ret)
{
	const struct index_table *table = &index->by_pack;

	if (table->n == 0)
		return false;
	for (size_t slot = index_slot_of(table, id); table->slots[slot];
	     slot = (slot + 1) & (table->n - 1)) {
		uint32_t number = table->slots[slot] - 1;

		if (repo_id_equal(&index->packs[number].id, id)) {
			*ret = number;
			return true;
		}
	}
	return false;
}

static bool new_pack(struct repo_index *index, uint32_t *ret)
{
	if (index->n_packs >= PACK_NOWHERE)
		return false;
	if (index->n_packs == index->packs_cap) {
		size_t cap = index->packs_cap ? index->packs_cap * 2 : 64;
		struct index_pack *packs = cairn_realloc_array(index->packs, cap, sizeof(*packs));

		if (!packs)
			return false;
		index->packs = packs;
		index->packs_cap = cap;
	}
	if (!table_grow(&index->by_pack, index, pack_id_of))
		return false;
	*ret = index->n_packs++;
	index->packs[*ret] = (struct index_pack){0};
	return true;
}

int repo_index_pack(struct repo_index *index, const struct repo_id *id, enum repo_pack_state state,
		    uint32_t *ret_pack, bool *ret_known, struct cairn_err *err)
{
	writing(index);
	bool known = id && find_pack(index, id, ret_pack);

	if (!known) {
		if (!new_pack(index, ret_pack))
			return cairn_err_nomem(err, "the index");
		index->packs[*ret_pack].state = state;
		if (id) {
			index->packs[*ret_pack].id = *id;
			table_put(&index->by_pack, id, *ret_pack);
		}
	} else if (index->packs[*ret_pack].state < (uint32_t)state) {
		index->packs[*ret_pack].state = state;
	}
	if (ret_known)
		*ret_known = known;
	return 0;
}

void repo_index_pack_set(struct repo_index *index, uint32_t pack, const struct repo_id *id,
			 enum repo_pack_state state)
{
	writing(index);
	struct index_pack *p = &index->packs[pack];

	/* new_pack() has reserved a slot for the id. */
	if (repo_id_is_zero(&p->id)) {
		p->id = *id;
		table_put(&index->by_pack, id, pack);
	}
	p->state = state;
}

bool repo_index_has_pack(struct repo_index *index, const struct repo_id *id)
{
	uint32_t pack;

	reading(index);
	return find_pack(index, id, &pack);
}

/* Iterates over the entries of a blob: *slot is the position to continue from. */
static struct index_entry *find_next(const struct repo_index *index, enum repo_blob_type type,
				     const struct repo_id *id, size_t *slot, uint32_t *ret_number)
{
	const struct index_table *table = &index->by_blob;

	if (table->n == 0)
		return NULL;
	for (; table->slots[*slot]; *slot = (*slot + 1) & (table->n - 1)) {
		uint32_t number = table->slots[*slot] - 1;
		struct index_entry *entry = entry_at(index, number);

		if (entry->tree == (type == REPO_BLOB_TREE) && repo_id_equal(&entry->id, id)) {
			*slot = (*slot + 1) & (table->n - 1);
			*ret_number = number;
			return entry;
		}
	}
	return NULL;
}

static bool index_is_gone(const struct repo_index *index, const struct index_entry *entry)
{
	return entry->pack != PACK_NOWHERE && index->packs[entry->pack].state == REPO_PACK_GONE;
}

/* Like find_next(), but skips entries of packs that are gone. */
static struct index_entry *find_live(const struct repo_index *index, enum repo_blob_type type,
				     const struct repo_id *id, size_t *slot, uint32_t *ret_number)
{
	struct index_entry *entry = find_next(index, type, id, slot, ret_number);

	while (entry && index_is_gone(index, entry))
		entry = find_next(index, type, id, slot, ret_number);
	return entry;
}

static struct index_entry *find_first(const struct repo_index *index, enum repo_blob_type type,
				      const struct repo_id *id, uint32_t *ret_number)
{
	size_t slot = index->by_blob.n ? index_slot_of(&index->by_blob, id) : 0;

	return find_live(index, type, id, &slot, ret_number);
}

static bool new_block(struct repo_index *index)
{
	size_t i = index->entries >> BLOCK_SHIFT;

	if (i == index->blocks_cap) {
		size_t cap = index->blocks_cap ? index->blocks_cap * 2 : 16;
		struct index_entry **blocks =
			cairn_realloc_array(index->blocks, cap, sizeof(*blocks));

		if (!blocks)
			return false;
		index->blocks = blocks;
		index->blocks_cap = cap;
	}
	index->blocks[i] = cairn_alloc(BLOCK_ENTRIES * sizeof(struct index_entry));
	return index->blocks[i] != NULL;
}

static struct index_entry *new_entry(struct repo_index *index, enum repo_blob_type type,
				     const struct repo_id *id, uint32_t *ret_number)
{
	struct index_entry *entry;

	if (index->entries >= ENTRIES_MAX || !table_grow(&index->by_blob, index, blob_id_of))
		return NULL;
	if ((index->entries & (BLOCK_ENTRIES - 1)) == 0 && !new_block(index))
		return NULL;
	*ret_number = index->entries++;
	entry = entry_at(index, *ret_number);
	*entry = (struct index_entry){
		.id = *id, .pack = PACK_NOWHERE, .tree = type == REPO_BLOB_TREE};
	table_put(&index->by_blob, id, *ret_number);
	return entry;
}

int repo_index_add(struct repo_index *index, uint32_t pack, const struct repo_pack_blob *blob,
		   bool fresh, struct cairn_err *err)
{
	writing(index);
	size_t slot = index->by_blob.n ? index_slot_of(&index->by_blob, &blob->id) : 0;
	struct index_entry *entry;
	uint32_t number;

	while (!fresh && (entry = find_next(index, blob->type, &blob->id, &slot, &number)))
		if (entry->pack == pack && entry->offset == blob->offset)
			return 0;
	entry = new_entry(index, blob->type, &blob->id, &number);
	if (!entry)
		return cairn_err_nomem(err, "the index");
	entry->pack = pack & PACK_NOWHERE;
	entry->offset = blob->offset;
	entry->length = blob->length;
	entry->plain = blob->plain;
	return 0;
}

int repo_index_reserve(struct repo_index *index, enum repo_blob_type type, const struct repo_id *id,
		       uint32_t *ret_entry, bool *ret_known, struct cairn_err *err)
{
	writing(index);
	struct repo_place place;

	*ret_known = find_first(index, type, id, ret_entry) != NULL ||
		     repo_index_find_attached(index, type, id, 0, &place);
	if (!*ret_known && !new_entry(index, type, id, ret_entry))
		return cairn_err_nomem(err, "the index");
	return 0;
}

int repo_index_reserve_copy(struct repo_index *index, enum repo_blob_type type,
			    const struct repo_id *id, uint32_t *ret_entry, struct cairn_err *err)
{
	writing(index);
	return new_entry(index, type, id, ret_entry) ? 0 : cairn_err_nomem(err, "the index");
}

void repo_index_settle(struct repo_index *index, uint32_t entry, uint32_t pack, uint32_t offset,
		       uint32_t length, uint32_t plain)
{
	writing(index);
	struct index_entry *e = entry_at(index, entry);

	e->pack = pack & PACK_NOWHERE;
	e->offset = offset;
	e->length = length;
	e->plain = plain;
}

static struct index_entry *find_copy(struct repo_index *index, enum repo_blob_type type,
				     const struct repo_id *id, unsigned *number,
				     uint32_t *ret_entry)
{
	size_t slot = index->by_blob.n ? index_slot_of(&index->by_blob, id) : 0;
	struct index_entry *entry = find_live(index, type, id, &slot, ret_entry);

	for (; entry && *number > 0; (*number)--)
		entry = find_live(index, type, id, &slot, ret_entry);
	return entry;
}

bool repo_index_find_copy(struct repo_index *index, enum repo_blob_type type,
			  const struct repo_id *id, unsigned number, struct repo_place *ret)
{
	reading(index);
	uint32_t ignored;
	const struct index_entry *entry = find_copy(index, type, id, &number, &ignored);

	if (!entry)
		return repo_index_find_attached(index, type, id, number, ret);
	*ret = (struct repo_place){.state = REPO_PACK_OPEN,
				   .pack = entry->pack,
				   .offset = entry->offset,
				   .length = entry->length,
				   .plain = entry->plain};
	if (entry->pack != PACK_NOWHERE) {
		ret->state = (enum repo_pack_state)index->packs[entry->pack].state;
		ret->pack_id = index->packs[entry->pack].id;
	}
	return true;
}

bool repo_index_entry_copy(struct repo_index *index, enum repo_blob_type type,
			   const struct repo_id *id, unsigned number, uint32_t *ret_entry)
{
	reading(index);
	return find_copy(index, type, id, &number, ret_entry) != NULL;
}

bool repo_index_find(struct repo_index *index, enum repo_blob_type type, const struct repo_id *id,
		     struct repo_place *ret)
{
	return repo_index_find_copy(index, type, id, 0, ret);
}

bool repo_index_find_gone(struct repo_index *index, enum repo_blob_type type,
			  const struct repo_id *id, uint32_t *ret_size)
{
	reading(index);
	size_t slot = index->by_blob.n ? index_slot_of(&index->by_blob, id) : 0;
	const struct index_entry *entry;
	uint32_t number;

	while ((entry = find_next(index, type, id, &slot, &number)))
		if (index_is_gone(index, entry)) {
			*ret_size = entry->plain ? entry->plain : entry->length - REPO_SEAL;
			return true;
		}
	return false;
}

bool repo_index_entry(struct repo_index *index, enum repo_blob_type type, const struct repo_id *id,
		      uint32_t *ret_entry)
{
	reading(index);
	return find_first(index, type, id, ret_entry) != NULL;
}

uint32_t repo_index_entries(struct repo_index *index)
{
	reading(index);
	return index->entries;
}

uint32_t repo_index_packs(struct repo_index *index)
{
	reading(index);
	return index->n_packs;
}

bool repo_index_at(struct repo_index *index, uint32_t entry, struct repo_pack_blob *ret,
		   uint32_t *ret_pack)
{
	reading(index);
	const struct index_entry *e = entry_at(index, entry);

	*ret = (struct repo_pack_blob){
		.id = e->id,
		.offset = e->offset,
		.length = e->length,
		.plain = e->plain,
		.type = e->tree ? REPO_BLOB_TREE : REPO_BLOB_DATA,
	};
	*ret_pack = e->pack;
	return e->pack != PACK_NOWHERE;
}

enum repo_pack_state repo_index_pack_at(struct repo_index *index, uint32_t pack,
					struct repo_id *ret_id)
{
	reading(index);
	*ret_id = index->packs[pack].id;
	return (enum repo_pack_state)index->packs[pack].state;
}

size_t repo_index_memory(struct repo_index *index)
{
	reading(index);
	return ((index->entries + BLOCK_ENTRIES - 1) >> BLOCK_SHIFT) * BLOCK_ENTRIES *
		       sizeof(struct index_entry) +
	       index->blocks_cap * sizeof(*index->blocks) +
	       index->packs_cap * sizeof(*index->packs) +
	       (index->by_blob.n + index->by_pack.n) * sizeof(uint32_t);
}
