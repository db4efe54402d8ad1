/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "pool/catalogue/ids.h"

static bool parse_token(struct csi_page *page, enum csi_page_kind kind, const char *token)
{
	const char *colon = strchr(token, ':');
	char number[8];
	uint64_t pool;
	uint64_t bits;
	uint64_t count;

	if (!colon || (size_t)(colon - token) >= sizeof(number))
		return false;
	memcpy(number, token, (size_t)(colon - token));
	number[colon - token] = '\0';
	if (cairn_parse_u64(number, &pool, NULL) != 0 || pool >= page->n_pools)
		return false;
	if (kind == CSI_PAGE_VOLUMES ? !pool_ids_parse_volume(colon + 1, &bits)
				     : !pool_ids_parse_snapshot(colon + 1, &bits, &count))
		return false;
	page->pool = (size_t)pool;
	snprintf(page->after, sizeof(page->after), "%s", colon + 1);
	return true;
}

int csi_page_begin(struct csi_page *page, enum csi_page_kind kind, int32_t max_entries,
		   const char *token, size_t n_pools, struct cairn_err *err)
{
	*page = (struct csi_page){.n_pools = n_pools};
	if (max_entries < 0)
		return cairn_err_set(err, CAIRN_INVALID, "max_entries must not be negative");
	page->max = max_entries && (uint32_t)max_entries < CSI_PAGE_MAX ? (size_t)max_entries
									: CSI_PAGE_MAX;
	if (token[0] && !parse_token(page, kind, token))
		return cairn_err_set(
			err, CAIRN_ABORTED,
			"'%.40s' is not a token of this listing; start from the beginning", token);
	return 0;
}

bool csi_page_next_pool(struct csi_page *page)
{
	if (page->full)
		return false;
	if (page->begun) {
		page->pool++;
		page->after[0] = '\0';
	}
	page->begun = true;
	return page->pool < page->n_pools;
}

bool csi_page_is_full(struct csi_page *page)
{
	if (page->n < page->max)
		return false;
	page->full = true;
	snprintf(page->next_token, sizeof(page->next_token), "%zu:%s", page->last_pool, page->last);
	return true;
}

void csi_page_add(struct csi_page *page, const char *id)
{
	page->n++;
	page->last_pool = page->pool;
	snprintf(page->last, sizeof(page->last), "%s", id);
}

void *csi_page_add_item(struct csi_page *page, const char *id, size_t size)
{
	void *item;

	if (!page->items)
		page->items = cairn_calloc(page->max, sizeof(*page->items));
	item = page->items ? cairn_calloc(1, size) : NULL;
	if (!item)
		return NULL;
	page->items[page->n] = item;
	csi_page_add(page, id);
	return item;
}

void *csi_page_entries(const struct csi_page *page, size_t offset)
{
	void **entries = cairn_calloc(page->n ? page->n : 1, sizeof(*entries));

	for (size_t i = 0; entries && i < page->n; i++)
		entries[i] = (char *)page->items[i] + offset;
	return entries;
}

void csi_page_done(struct csi_page *page)
{
	for (size_t i = 0; page->items && i < page->n; i++)
		free(page->items[i]);
	free(page->items);
}
