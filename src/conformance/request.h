/* SPDX-License-Identifier: Apache-2.0 */

/* Requests to the driver under test, written field by field.
 *
 * What is wrong on purpose must be possible to say, and the maps of every
 * message are the same bytes, so requests do not go through generated code. The
 * field numbers are those of csi.v1. The buffer's failure says whether all fit.
 */
#ifndef CAIRN_CONFORMANCE_REQUEST_H
#define CAIRN_CONFORMANCE_REQUEST_H

#include <stddef.h>
#include <stdint.h>

struct cairn_buf;
struct cairn_err;

#define REQUEST_MAX     (64U << 10) /* bytes of one request */
#define REQUEST_MAP_MAX 64U         /* entries of a map that a driver hands us */

/* A map<string, string>: what the user gave, or what a driver said. */
struct request_map {
	char **keys;
	char **values;
	size_t n;
};

/* Copies both.
 *
 * CAIRN_NO_SPACE  out of memory, or REQUEST_MAP_MAX entries are there
 */
int request_map_add(struct request_map *map, const char *key, const char *value,
		    struct cairn_err *err);
void request_map_done(struct request_map *map);

/* Adds the "KEY=VALUE" items of `text`, which stand between separators.
 *
 * CAIRN_INVALID  an item has no "="
 */
int request_map_parse(struct request_map *map, const char *text, const char *separators,
		      struct cairn_err *err);

/* NULL and "" are left out, and so is 0: proto3 has no other way to say them. */
void request_add_string(struct cairn_buf *buf, uint32_t field, const char *text);
void request_add_int(struct cairn_buf *buf, uint32_t field, int64_t value);
void request_add_map(struct cairn_buf *buf, uint32_t field, const struct request_map *map);
void request_add_bytes(struct cairn_buf *buf, uint32_t field, const void *data, size_t n);

/* A CapacityRange of at least `bytes`. */
void request_add_capacity(struct cairn_buf *buf, uint32_t field, uint64_t bytes);

/* The VolumeCapability of all volumes here: block access, one node writes. */
void request_add_capability(struct cairn_buf *buf, uint32_t field);

#endif
