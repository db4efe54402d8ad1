/* SPDX-License-Identifier: Apache-2.0 */

#include "net/nv.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/mem.h"
#include "net/grpc/grpc_text.h"
#include "net/header_fields.h"

#define OWN_FIELDS 10 /* fields that we add to a caller's list, at most */

static size_t nv_text_of(const struct net_fields *fields)
{
	size_t sum = 0;

	for (size_t i = 0; fields && i < fields->n; i++)
		sum += cairn_base64_length(net_fields_at(fields, i)->value_len);
	return sum;
}

void net_nv_init(struct net_nv *nv, const struct net_fields *a, const struct net_fields *b,
		 size_t extra_text)
{
	size_t cap = OWN_FIELDS + (a ? a->n : 0) + (b ? b->n : 0);
	size_t text = nv_text_of(a) + nv_text_of(b) + extra_text;

	nv->n = nv->text_len = 0;
	nv->failed = false;
	nv->cap = NET_NV_INLINE;
	nv->v = nv->v_inline;
	nv->text = nv->text_inline;
	nv->text_cap = sizeof(nv->text_inline);
	if (cap > nv->cap) {
		nv->v = cairn_calloc(cap, sizeof(*nv->v));
		nv->cap = nv->v ? cap : 0;
	}
	if (text > nv->text_cap) {
		nv->text = cairn_alloc(text);
		nv->text_cap = nv->text ? text : 0;
	}
	nv->failed = !nv->v || !nv->text;
}

void net_nv_done(struct net_nv *nv)
{
	if (nv->v != nv->v_inline)
		free(nv->v);
	if (nv->text != nv->text_inline)
		free(nv->text);
}

void net_nv_add_n(struct net_nv *nv, const char *name, const char *value, size_t n)
{
	if (nv->n >= nv->cap) {
		nv->failed = true;
		return;
	}
	/* nghttp2 takes both without const and only reads them. */
	nv->v[nv->n++] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
				      .namelen = strlen(name),
				      .value = (uint8_t *)(uintptr_t)value,
				      .valuelen = n,
				      .flags = NGHTTP2_NV_FLAG_NONE};
}

void net_nv_add(struct net_nv *nv, const char *name, const char *value)
{
	net_nv_add_n(nv, name, value, strlen(value));
}

void net_nv_add_percent(struct net_nv *nv, const char *name, const char *text)
{
	size_t n = strlen(text);

	if (n * 3 > nv->text_cap - nv->text_len) {
		nv->failed = true;
		return;
	}
	n = grpc_percent_encode(text, n, nv->text + nv->text_len);
	net_nv_add_n(nv, name, nv->text + nv->text_len, n);
	nv->text_len += n;
}

void net_nv_add_base64(struct net_nv *nv, const char *name, const void *data, size_t n)
{
	if (cairn_base64_length(n) > nv->text_cap - nv->text_len) {
		nv->failed = true;
		return;
	}
	n = cairn_base64_encode(data, n, nv->text + nv->text_len);
	net_nv_add_n(nv, name, nv->text + nv->text_len, n);
	nv->text_len += n;
}

void net_nv_add_fields(struct net_nv *nv, const struct net_fields *fields)
{
	for (size_t i = 0; i < fields->n; i++) {
		const struct net_field *field = net_fields_at(fields, i);
		const char *name = net_field_name(fields, field);
		const char *value = net_field_value(fields, field);

		if (grpc_name_is_bin(name, field->name_len))
			net_nv_add_base64(nv, name, value, field->value_len);
		else
			net_nv_add_n(nv, name, value, field->value_len);
	}
}
