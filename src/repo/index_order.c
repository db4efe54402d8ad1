/* SPDX-License-Identifier: Apache-2.0 */

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "repo/index.h"

void repo_index_order_done(struct repo_index_order *order)
{
	free(order->order);
	free(order->starts);
	*order = (struct repo_index_order){0};
}

/* Counts the entries of each pack, then turns the counts into start positions. */
static void index_order_count(struct repo_index *index, uint32_t n, struct repo_index_order *order)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct repo_pack_blob blob;
		uint32_t pack;

		if (repo_index_at(index, i, &blob, &pack) && pack < order->packs)
			order->starts[pack]++;
	}
	for (uint32_t p = 0; p <= order->packs; p++) {
		uint32_t here = order->starts[p];

		order->starts[p] = sum;
		sum += here;
	}
}

static int index_order_by_offset(const void *a, const void *b, void *arg)
{
	struct repo_pack_blob x, y;
	uint32_t pack;

	repo_index_at(arg, *(const uint32_t *)a, &x, &pack);
	repo_index_at(arg, *(const uint32_t *)b, &y, &pack);
	return x.offset < y.offset ? -1 : x.offset > y.offset;
}

static void index_order_place(struct repo_index *index, uint32_t n, struct repo_index_order *order,
			      uint32_t *next)
{
	for (uint32_t i = 0; i < n; i++) {
		struct repo_pack_blob blob;
		uint32_t pack;

		if (repo_index_at(index, i, &blob, &pack) && pack < order->packs)
			order->order[order->starts[pack] + next[pack]++] = i;
	}
	for (uint32_t p = 0; p < order->packs; p++)
		qsort_r(order->order + order->starts[p], next[p], sizeof(*order->order),
			index_order_by_offset, index);
}

int repo_index_sort(struct repo_index *index, struct repo_index_order *ret, struct cairn_err *err)
{
	cairn_cleanup(repo_index_order_done) struct repo_index_order order = {
		.packs = repo_index_packs(index)};
	cairn_auto_free uint32_t *next = NULL;
	uint32_t n = repo_index_entries(index);

	order.order = cairn_calloc(n, sizeof(*order.order));
	order.starts = cairn_calloc((size_t)order.packs + 1, sizeof(*order.starts));
	next = cairn_calloc(order.packs, sizeof(*next));
	if (!order.order || !order.starts || !next)
		return cairn_err_nomem(err, "the order of the index");
	index_order_count(index, n, &order);
	index_order_place(index, n, &order, next);
	*ret = order;
	order = (struct repo_index_order){0};
	return 0;
}
