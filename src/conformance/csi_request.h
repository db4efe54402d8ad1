/* SPDX-License-Identifier: Apache-2.0 */

/* Encodes requests to the driver under test field by field.
 *
 * Requests do not use generated code, because deliberately wrong ones must be possible,
 * and the maps of all messages have the same encoding. The field numbers are those of
 * csi.v1. The buffer's failure flag is set if a field did not fit.
 */
#ifndef CAIRN_CONFORMANCE_REQUEST_H
#define CAIRN_CONFORMANCE_REQUEST_H

#include <stddef.h>
#include <stdint.h>

struct cairn_buf;
struct cairn_err;

#define REQUEST_MAX     (64U << 10) /* limit of one request */
#define REQUEST_MAP_MAX 64U         /* limit of the entries of a driver's map */

/* A map<string, string> from the user or from a driver. */
struct request_map {
	char **keys;
	char **values;
	size_t n;
};

/* Copies both.
 *
 * CAIRN_NO_SPACE  out of memory, or there are REQUEST_MAP_MAX entries
 */
int conformance_request_map_add(struct request_map *map, const char *key, const char *value,
				struct cairn_err *err);
void conformance_request_map_done(struct request_map *map);

/* Adds the "KEY=VALUE" items of `text`, which are separated by `separators`.
 *
 * CAIRN_INVALID  an item has no "="
 */
int conformance_request_map_parse(struct request_map *map, const char *text, const char *separators,
				  struct cairn_err *err);

/* NULL, "" and 0 are omitted, because proto3 does not distinguish them from absent. */
void conformance_request_add_string(struct cairn_buf *buf, uint32_t field, const char *text);
void conformance_request_add_int(struct cairn_buf *buf, uint32_t field, int64_t value);
void conformance_request_add_map(struct cairn_buf *buf, uint32_t field,
				 const struct request_map *map);
void conformance_request_add_bytes(struct cairn_buf *buf, uint32_t field, const void *data,
				   size_t n);

/* A CapacityRange of at least `bytes`. */
void conformance_request_add_capacity(struct cairn_buf *buf, uint32_t field, uint64_t bytes);

/* The VolumeCapability of all volumes here: block access, single node writer. */
void conformance_request_add_capability(struct cairn_buf *buf, uint32_t field);

#endif
