/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/chunk.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define ROOM_MIN 1024

void backup_chunk_map_done(struct chunk_map *map)
{
	free(map->at);
	*map = (struct chunk_map){0};
}

static struct chunk *next_chunk(struct chunk_map *map, struct cairn_err *err)
{
	if (map->n == map->room) {
		size_t room = map->room ? map->room + map->room / 2 : ROOM_MIN;
		void *more = cairn_realloc_array(map->at, room, sizeof(*map->at));

		if (!more) {
			cairn_err_nomem(err, "list of chunks");
			return NULL;
		}
		map->at = more;
		map->room = room;
	}
	if (!map->at) /* cannot happen: allocated above */
		return NULL;
	map->at[map->n] = (struct chunk){0};
	return &map->at[map->n];
}

static int add_zeros(struct chunk_map *map, uint64_t length, struct cairn_err *err)
{
	struct chunk *last = map->n > map->barrier ? &map->at[map->n - 1] : NULL;

	while (length > 0) {
		uint64_t room = CHUNK_ZERO_MAX;
		uint64_t part;

		if (!last || last->kind != CHUNK_ZERO || last->length == CHUNK_ZERO_MAX) {
			last = next_chunk(map, err);
			if (!last)
				return CAIRN_NO_SPACE;
			last->kind = CHUNK_ZERO;
			map->n++;
		}
		room -= last->length;
		part = length < room ? length : room;
		last->length += (uint32_t)part;
		map->size += part;
		length -= part;
	}
	return 0;
}

int backup_chunk_map_add(struct chunk_map *map, enum chunk_kind kind, const uint8_t *id,
			 uint64_t length, struct cairn_err *err)
{
	struct chunk *chunk;

	if (kind == CHUNK_ZERO)
		return add_zeros(map, length, err);
	chunk = next_chunk(map, err);
	if (!chunk)
		return CAIRN_NO_SPACE;
	chunk->kind = (uint8_t)kind;
	chunk->length = (uint32_t)length;
	if (id)
		memcpy(chunk->id, id, CHUNK_ID_BYTES);
	map->n++;
	map->size += length;
	map->lost += kind == CHUNK_LOST ? length : 0;
	return 0;
}

/* The smallest power of two that holds this many bytes. */
static uint64_t buddy_of(uint64_t length)
{
	uint64_t buddy = CHUNK_DATA_MIN;

	while (buddy < length)
		buddy *= 2;
	return buddy;
}

int backup_chunk_map_check(const struct chunk_map *map, struct cairn_err *err)
{
	uint64_t offset = 0;

	for (size_t i = 0; i < map->n; i++) {
		uint64_t length = map->at[i].length;
		bool last = i + 1 == map->n;

		if (map->at[i].kind != CHUNK_ZERO &&
		    (length > CHUNK_DATA_MAX || offset % buddy_of(length) != 0 ||
		     (!last && length != buddy_of(length))))
			return cairn_err_set(err, CAIRN_PRECONDITION,
					     "the chunk of %" PRIu64 " bytes at %" PRIu64
					     " is not one of Cairn's",
					     length, offset);
		offset += length;
	}
	return 0;
}
