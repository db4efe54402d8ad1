/* SPDX-License-Identifier: Apache-2.0 */

/* A header block about to be handed to nghttp2. */
#ifndef CAIRN_NET_NV_H
#define CAIRN_NET_NV_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>

struct net_fields;

#define NET_NV_INLINE 16
#define NET_NV_TEXT   64

struct net_nv {
	nghttp2_nv *v;
	size_t n, cap;
	char *text; /* encoded values */
	size_t text_len, text_cap;
	bool failed; /* memory was short */
	nghttp2_nv v_inline[NET_NV_INLINE];
	char text_inline[NET_NV_TEXT];
};

/* Reserves `extra_text` bytes of text besides the space for `a` and `b` (either
 * may be NULL). */
void net_nv_init(struct net_nv *nv, const struct net_fields *a, const struct net_fields *b,
		 size_t extra_text);
void net_nv_done(struct net_nv *nv);

/* Both must stay valid until the block is submitted. */
void net_nv_add(struct net_nv *nv, const char *name, const char *value);
void net_nv_add_n(struct net_nv *nv, const char *name, const char *value, size_t n);

/* Percent-encoded, from the extra text. */
void net_nv_add_percent(struct net_nv *nv, const char *name, const char *text);
/* Base64, from the extra text. */
void net_nv_add_base64(struct net_nv *nv, const char *name, const void *data, size_t n);

void net_nv_add_fields(struct net_nv *nv, const struct net_fields *fields);

#endif
