/* SPDX-License-Identifier: Apache-2.0 */

/* Pages of a listing over all pools. A token is "<pool>:<id>": the pool's index, and the
 * id after which the next page begins. */
#ifndef CAIRN_CSI_PAGE_H
#define CAIRN_CSI_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;

/* Limit of the entries in one reply, also if the caller sets none. */
#define CSI_PAGE_MAX       10000U
#define CSI_PAGE_TOKEN_MAX (POOL_ID_MAX + 24)

struct csi_page {
	size_t max;
	size_t n;
	size_t pool; /* being listed */
	size_t n_pools;
	bool begun;
	bool full;
	char after[POOL_ID_MAX + 1]; /* in that pool; "" from its start */
	size_t last_pool;            /* of the last entry */
	char last[POOL_ID_MAX + 1];
	char next_token[CSI_PAGE_TOKEN_MAX]; /* "" when this page is the last */
	void **items;                        /* of the entries; owned */
};

enum csi_page_kind {
	CSI_PAGE_VOLUMES,
	CSI_PAGE_SNAPSHOTS,
};

/* CAIRN_INVALID  max_entries is negative
 * CAIRN_ABORTED  the token is not one of such a listing (CSI requires this code)
 */
int csi_page_begin(struct csi_page *page, enum csi_page_kind kind, int32_t max_entries,
		   const char *token, size_t n_pools, struct cairn_err *err);

/* Advances to the next pool; false at the end or if the page is full. */
bool csi_page_next_pool(struct csi_page *page);

/* True if there is no room for the entry that was just found; then the page gets a token
 * for the remaining entries. */
bool csi_page_is_full(struct csi_page *page);
void csi_page_add(struct csi_page *page, const char *id);

/* Adds an entry with a zeroed item of `size` bytes; NULL when memory is short. */
void *csi_page_add_item(struct csi_page *page, const char *id, size_t size);

/* An array of pointers to the member at `offset` of each item, as messages have it; to be
 * freed. NULL when memory is short. */
void *csi_page_entries(const struct csi_page *page, size_t offset);

/* Frees the items. */
void csi_page_done(struct csi_page *page);

#endif
