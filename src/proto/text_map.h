/* SPDX-License-Identifier: Apache-2.0 */

/* A field `map<string, string>` of a message that is packed.
 *
 * protobuf-c generates a type of entry for each such field, all with the same two fields.
 * The map is filled through the entry's descriptor, so that one piece of code serves every
 * request: after the last proto_text_map_add() assign `n` and `entries` to the field. Keys
 * and values are borrowed until the message is packed.
 */
#ifndef CAIRN_PROTO_TEXT_MAP_H
#define CAIRN_PROTO_TEXT_MAP_H

#include <stddef.h>

#include <protobuf-c/protobuf-c.h>

struct cairn_err;

struct proto_text_map {
	size_t n;
	void *entries; /* an array of pointers to entries, of the field's type */
	const ProtobufCMessageDescriptor *type;
	size_t max;
};

/* Makes room for `max` entries of type `type` (`csi__v1__…_entry__descriptor`). */
int proto_text_map_init(struct proto_text_map *map, const ProtobufCMessageDescriptor *type,
			size_t max, struct cairn_err *err);

/* At most `max` times. NULL stands for "". */
void proto_text_map_add(struct proto_text_map *map, const char *key, const char *value);

/* Frees the entries, not their strings. Of a zeroed map: does nothing. */
void proto_text_map_done(struct proto_text_map *map);

#endif
