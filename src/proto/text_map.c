/* SPDX-License-Identifier: Apache-2.0 */

#include "proto/text_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "proto/message.h"

/* The pointers come first, and after them the entries: a pointer's alignment suits both. */
int proto_text_map_init(struct proto_text_map *map, const ProtobufCMessageDescriptor *type,
			size_t max, struct cairn_err *err)
{
	void *memory = cairn_calloc(max + 1, sizeof(void *) + type->sizeof_message);

	if (!memory)
		return cairn_err_nomem(err, "request");
	*map = (struct proto_text_map){.entries = memory, .type = type, .max = max};
	return 0;
}

/* The fields of an entry are sorted by number: the key is 1, the value 2. */
void proto_text_map_add(struct proto_text_map *map, const char *key, const char *value)
{
	void **pointers = map->entries;
	char *entry = (char *)(pointers + map->max + 1) + map->n * map->type->sizeof_message;
	char *texts[] = {proto_text(key), proto_text(value)};

	protobuf_c_message_init(map->type, (ProtobufCMessage *)(void *)entry);
	for (size_t i = 0; i < 2; i++)
		memcpy(entry + map->type->fields[i].offset, &texts[i], sizeof(texts[i]));
	pointers[map->n++] = entry;
}

void proto_text_map_done(struct proto_text_map *map)
{
	free(map->entries);
	*map = (struct proto_text_map){0};
}
