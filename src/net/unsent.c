/* SPDX-License-Identifier: Apache-2.0 */

#include "net/unsent.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* AddressSanitizer finds the use of freed memory only if it is really freed. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define KEEP_SPARE false
#else
#define KEEP_SPARE true
#endif

static uint8_t *unsent_buffer_get(struct net_unsent_spare *spare, size_t n, size_t *ret_cap)
{
	uint8_t *data = spare->data;

	if (data && n >= NET_UNSENT_SPARE_BYTES / 2 && n <= spare->cap) {
		*ret_cap = spare->cap;
		*spare = (struct net_unsent_spare){0};
		return data;
	}
	*ret_cap = n;
	return cairn_alloc(n);
}

/* The larger of two buffers is worth keeping. */
static void unsent_buffer_put(struct net_unsent_spare *spare, uint8_t *data, size_t cap)
{
	if (KEEP_SPARE && cap >= NET_UNSENT_SPARE_BYTES && cap > spare->cap) {
		free(spare->data);
		*spare = (struct net_unsent_spare){.data = data, .cap = cap};
	} else {
		free(data);
	}
}

bool net_unsent_add(struct net_unsent *unsent, struct net_unsent_spare *spare, const uint8_t *data,
		    size_t n)
{
	size_t have = net_unsent_len(unsent), cap;
	uint8_t *all;

	if (unsent->data && unsent->cap - unsent->len >= n) {
		memcpy(unsent->data + unsent->len, data, n);
		unsent->len += n;
		return true;
	}
	all = unsent_buffer_get(spare, have + n, &cap);
	if (!all)
		return false;
	if (unsent->data) {
		memcpy(all, unsent->data + unsent->at, have);
		unsent_buffer_put(spare, unsent->data, unsent->cap);
	}
	memcpy(all + have, data, n);
	*unsent = (struct net_unsent){.data = all, .cap = cap, .len = have + n};
	return true;
}

void net_unsent_drop(struct net_unsent *unsent, struct net_unsent_spare *spare, size_t n)
{
	unsent->at += n;
	if (unsent->at == unsent->len)
		net_unsent_clear(unsent, spare);
}

void net_unsent_clear(struct net_unsent *unsent, struct net_unsent_spare *spare)
{
	if (unsent->data)
		unsent_buffer_put(spare, unsent->data, unsent->cap);
	*unsent = (struct net_unsent){0};
}

void net_unsent_spare_done(struct net_unsent_spare *spare)
{
	free(spare->data);
	*spare = (struct net_unsent_spare){0};
}
