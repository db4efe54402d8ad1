/* SPDX-License-Identifier: Apache-2.0 */

#include "net/header_fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/grpc/grpc_text.h"

void net_fields_init(struct net_fields *fields)
{
	fields->more = NULL;
	fields->n = fields->more_cap = 0;
	cairn_buf_init(&fields->text, NET_FIELDS_BYTES_MAX);
}

void net_fields_done(struct net_fields *fields)
{
	cairn_buf_done(&fields->text);
	free(fields->more);
	fields->more = NULL;
	fields->n = fields->more_cap = 0;
}

static struct net_field *next_field(struct net_fields *fields)
{
	size_t i = fields->n - NET_FIELDS_FIRST;

	if (fields->n < NET_FIELDS_FIRST)
		return &fields->first[fields->n];
	if (i == fields->more_cap) {
		size_t cap = i > 0 ? i * 2 : 16;
		struct net_field *more = cairn_realloc_array(fields->more, cap, sizeof(*more));

		if (!more)
			return NULL;
		fields->more = more;
		fields->more_cap = cap;
	}
	return &fields->more[i];
}

bool net_fields_add(struct net_fields *fields, const char *name, size_t name_len, const void *value,
		    size_t value_len)
{
	struct net_field *field = next_field(fields);
	char *at;

	if (!field)
		return false;
	/* The first allocation is large enough for a usual request. */
	if (!fields->text.data && !cairn_buf_reserve(&fields->text, NET_FIELDS_FIRST_BYTES))
		return false;
	at = cairn_buf_reserve(&fields->text, name_len + value_len + 2);
	if (!at)
		return false;
	field->name = (uint32_t)fields->text.len;
	field->name_len = (uint32_t)name_len;
	field->value = field->name + field->name_len + 1;
	field->value_len = (uint32_t)value_len;
	memcpy(at, name, name_len);
	at[name_len] = '\0';
	if (value_len > 0)
		memcpy(at + name_len + 1, value, value_len);
	at[name_len + 1 + value_len] = '\0';
	fields->text.len += name_len + value_len + 2;
	fields->n++;
	return true;
}

static bool add_base64(struct net_fields *fields, const char *name, size_t name_len,
		       const char *value, size_t value_len)
{
	struct net_field *field = next_field(fields);
	size_t n;
	char *at;

	if (!field || !net_fields_add(fields, name, name_len, value, value_len))
		return false;
	at = (char *)fields->text.data + field->value;
	if (!cairn_base64_decode(value, value_len, (uint8_t *)at, &n)) {
		fields->n--;
		return false;
	}
	at[n] = '\0';
	field->value_len = (uint32_t)n;
	return true;
}

bool net_fields_add_wire(struct net_fields *fields, const char *name, size_t name_len,
			 const char *value, size_t value_len)
{
	if (!grpc_name_is_bin(name, name_len))
		return net_fields_add(fields, name, name_len, value, value_len);
	for (;;) {
		const char *comma = value_len ? memchr(value, ',', value_len) : NULL;
		size_t part = comma ? (size_t)(comma - value) : value_len;

		if (!add_base64(fields, name, name_len, value, part))
			return false;
		if (!comma)
			return true;
		value += part + 1;
		value_len -= part + 1;
		while (value_len > 0 && *value == ' ') {
			value++;
			value_len--;
		}
	}
}

int net_fields_add_checked(struct net_fields *fields, const char *name, const void *value,
			   size_t value_len, struct cairn_err *err)
{
	size_t n = strlen(name);

	if (!grpc_name_valid(name, n) || grpc_name_reserved(name, n))
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a metadata name", name);
	if (!grpc_name_is_bin(name, n) && !grpc_value_valid(value, value_len))
		return cairn_err_set(err, CAIRN_INVALID, "the value of '%s' is not printable ASCII",
				     name);
	if (value_len > NET_FIELDS_BYTES_MAX || !net_fields_add(fields, name, n, value, value_len))
		return cairn_err_nomem(err, "metadata");
	return 0;
}

const char *net_field_name(const struct net_fields *fields, const struct net_field *field)
{
	return (const char *)fields->text.data + field->name;
}

const char *net_field_value(const struct net_fields *fields, const struct net_field *field)
{
	return (const char *)fields->text.data + field->value;
}

size_t net_fields_held(const struct net_fields *fields)
{
	return fields->text.cap + fields->more_cap * sizeof(*fields->more);
}

const char *net_fields_get(const struct net_fields *fields, const char *name, size_t *ret_len)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < fields->n; i++) {
		const struct net_field *field = net_fields_at(fields, i);

		if (field->name_len == n && memcmp(net_field_name(fields, field), name, n) == 0) {
			if (ret_len)
				*ret_len = field->value_len;
			return net_field_value(fields, field);
		}
	}
	return NULL;
}
