/* SPDX-License-Identifier: Apache-2.0 */

/* A list of names and values: the fields of one request or response.
 *
 * All text lies in one buffer, so a typical call costs one allocation. Values
 * of "-bin" names are kept decoded and encoded again on the way out.
 */
#ifndef CAIRN_NET_FIELDS_H
#define CAIRN_NET_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct cairn_err;

#define NET_FIELDS_BYTES_MAX (1U << 20) /* limit for a list that we send ourselves */

struct net_field {
	uint32_t name, name_len;
	uint32_t value, value_len; /* offsets in the buffer; both are NUL-terminated */
};

#define NET_FIELDS_FIRST 10

#define NET_FIELDS_FIRST_BYTES 512 /* size of the first buffer: fits a typical request */

/* May be moved by assignment. */
struct net_fields {
	struct cairn_buf text;
	struct net_field first[NET_FIELDS_FIRST];
	struct net_field *more; /* those after the first */
	size_t n, more_cap;
};

void net_fields_init(struct net_fields *fields);
void net_fields_done(struct net_fields *fields);

/* Adds a copy. false when memory is short. */
bool net_fields_add(struct net_fields *fields, const char *name, size_t name_len, const void *value,
		    size_t value_len);

/* Adds a field as received: a "-bin" value is decoded, and split at commas into
 * several. false when memory is short or it is not base64. */
bool net_fields_add_wire(struct net_fields *fields, const char *name, size_t name_len,
			 const char *value, size_t value_len);

/* Adds a field to be sent, after checking it.
 *
 * CAIRN_INVALID   illegal or reserved name, illegal value
 * CAIRN_NO_SPACE  out of memory
 */
int net_fields_add_checked(struct net_fields *fields, const char *name, const void *value,
			   size_t value_len, struct cairn_err *err);

static inline const struct net_field *net_fields_at(const struct net_fields *fields, size_t i)
{
	return i < NET_FIELDS_FIRST ? &fields->first[i] : &fields->more[i - NET_FIELDS_FIRST];
}

const char *net_field_name(const struct net_fields *fields, const struct net_field *field);
const char *net_field_value(const struct net_fields *fields, const struct net_field *field);

/* Memory that the list holds besides the struct itself. */
size_t net_fields_held(const struct net_fields *fields);

/* The first value of a name, or NULL. `ret_len` may be NULL. */
const char *net_fields_get(const struct net_fields *fields, const char *name, size_t *ret_len);

#endif
