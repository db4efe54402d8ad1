/* SPDX-License-Identifier: Apache-2.0 */

/* Controller.ListSnapshotDeltas: changed blocks of one size, each with a token
 * for its data.
 *
 * A page token is the number of the first block, because the API object carries it as a
 * number. Blocks are numbered in units of the driver's block size. That is an option of
 * the driver and not of a volume, because it must not change between two pages.
 */

#include "csi/service.h"

#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "csi/changes.h"
#include "csi/data_token.h"
#include "csi/reply.h"
#include "csi_deltas.pb-c.h"
#include "net/grpc/call.h"
#include "proto/message.h"

/* Limit of the blocks in one response, also if the caller sets none: 2 MiB with their
 * tokens, below the default limit of 4 MiB in gRPC clients. */
#define BLOCKS_MAX 10000U

#define TOKEN_TEXT_MAX 24 /* of a page token */

struct item {
	Csi__V1__BlockSnapshotChangedBlock block;
	Csi__V1__BlockSnapshotChangedBlockToken token;
	char text[CSI_TOKEN_TEXT_MAX + 1];
};

struct page {
	struct csi_driver *driver;
	struct csi_changes *changes;
	struct csi_token_sealer *sealer;
	Google__Protobuf__Timestamp issued;
	const char *holder; /* borrowed from the request */
	uint64_t block_bytes;
	uint64_t next; /* the first block that may still be reported */
	size_t max;
	size_t n;
	struct item *items;
	char next_token[TOKEN_TEXT_MAX];
};

static void list_snapshot_deltas_page_done(struct page *page)
{
	free(page->items);
	csi_token_sealer_free(page->sealer);
	csi_changes_freep(&page->changes);
}

static int list_snapshot_deltas_add_block(struct page *page, uint64_t number, struct cairn_err *err)
{
	struct item *item = &page->items[page->n++];
	struct csi_data_token token = {
		.offset = number * page->block_bytes,
		.length = page->block_bytes,
		.issued_s = (uint64_t)page->issued.seconds,
		.ttl_s = page->driver->token_ttl_s,
		.holder = page->holder,
	};

	memcpy(token.snapshot, csi_changes_target(page->changes)->id, sizeof(token.snapshot));
	if (csi_token_seal(page->sealer, &token, item->text) == 0)
		return cairn_err_nomem(err, "data token");
	csi__v1__block_snapshot_changed_block__init(&item->block);
	csi__v1__block_snapshot_changed_block_token__init(&item->token);
	item->token.token = item->text;
	item->token.issuance_time = &page->issued;
	item->token.ttl_seconds = (int32_t)token.ttl_s;
	item->block.offset = number;
	item->block.block_size_bytes = page->block_bytes;
	item->block.token = &item->token;
	return 0;
}

/* Adds the blocks that one range touches; *ret_full is true if the page is full before
 * them. */
static int list_snapshot_deltas_add_range(struct page *page, const struct block_extent *extent,
					  bool *ret_full, struct cairn_err *err)
{
	uint64_t first = extent->offset / page->block_bytes;
	uint64_t last = (block_extent_end(extent) - 1) / page->block_bytes;
	int rc = 0;

	*ret_full = false;
	if (first < page->next)
		first = page->next;
	for (uint64_t number = first; number <= last && !rc; number++) {
		if (page->n == page->max) {
			*ret_full = true;
			page->next_token[cairn_format_u64(number, page->next_token)] = '\0';
			return 0;
		}
		page->next = number + 1;
		rc = list_snapshot_deltas_add_block(page, number, err);
	}
	return rc;
}

static int list_snapshot_deltas_fill_page(struct page *page, struct cairn_err *err)
{
	struct block_extent extent;
	bool some = true;
	bool full = false;
	int rc = csi_token_sealer_new(&page->driver->token_key, &page->sealer, err);

	if (rc)
		return rc;
	page->items = cairn_calloc(page->max, sizeof(*page->items));
	if (!page->items)
		return cairn_err_nomem(err, "page");
	while (!rc && some && !full) {
		rc = csi_changes_next(page->changes, &extent, &some, err);
		if (!rc && some)
			rc = list_snapshot_deltas_add_range(page, &extent, &full, err);
	}
	return rc;
}

static int list_snapshot_deltas_send_page(struct net_call *call, struct page *page,
					  struct cairn_err *err)
{
	cairn_auto_free Csi__V1__BlockSnapshotChangedBlock **list =
		cairn_calloc(page->n ? page->n : 1, sizeof(Csi__V1__BlockSnapshotChangedBlock *));
	cairn_auto_buf struct cairn_buf reply = CAIRN_BUF_INIT(CSI_REPLY_MAX);
	Csi__V1__ListSnapshotDeltasResponse response;
	int rc;

	if (!list)
		return cairn_err_nomem(err, "page");
	for (size_t i = 0; i < page->n; i++)
		list[i] = &page->items[i].block;
	csi__v1__list_snapshot_deltas_response__init(&response);
	response.changed_blocks = list;
	response.n_changed_blocks = page->n;
	response.next_token = page->next_token;
	response.volume_size_bytes = csi_changes_target(page->changes)->size;
	rc = csi_reply(&reply, &response.base, err);
	return rc ? rc : net_call_send(call, reply.data, reply.len, err);
}

/* The offset of the first block. A short last block ends past the volume, so the number
 * after it means the volume's end. */
static int find_start(struct page *page, uint64_t size, uint64_t *ret, struct cairn_err *err)
{
	uint64_t blocks = size / page->block_bytes + (size % page->block_bytes != 0);

	if (page->next > blocks)
		return cairn_err_set(err, CAIRN_RANGE, "the volume has %llu blocks of %llu bytes",
				     (unsigned long long)blocks,
				     (unsigned long long)page->block_bytes);
	*ret = page->next == blocks ? size : page->next * page->block_bytes;
	return 0;
}

static int list_snapshot_deltas_read_request(struct page *page,
					     const Csi__V1__ListSnapshotDeltasRequest *request,
					     struct csi_changes_spec *spec, struct cairn_err *err)
{
	struct pool_snapshot target;
	struct pool *pool;
	int rc = csi_require(request->to_snapshot_id, "to_snapshot_id", err);

	if (!rc && request->max_entries < 0)
		rc = cairn_err_set(err, CAIRN_INVALID, "max_entries must not be negative");
	if (!rc && request->starting_token[0] &&
	    cairn_parse_u64(request->starting_token, &page->next, NULL) != 0)
		rc = cairn_err_set(
			err, CAIRN_ABORTED,
			"'%.32s' is not a token of this listing; start from the beginning",
			request->starting_token);
	if (!rc)
		rc = csi_find_snapshot(page->driver, request->to_snapshot_id, &pool, &target, err);
	if (!rc)
		rc = find_start(page, target.size, &spec->start, err);
	if (rc)
		return rc;
	page->max = BLOCKS_MAX;
	if (request->max_entries && (size_t)request->max_entries < page->max)
		page->max = (size_t)request->max_entries;
	page->holder = request->holder;
	spec->base = request->from_snapshot_id;
	spec->target = request->to_snapshot_id;
	return 0;
}

int csi_deltas_list(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct csi_driver *driver = arg;
	proto_auto_message ProtobufCMessage *message = NULL;
	cairn_cleanup(list_snapshot_deltas_page_done) struct page page = {
		.driver = driver,
		.block_bytes = driver->delta_block,
	};
	struct csi_changes_spec spec = {.call = call};
	int rc = csi_request_recv(call, &csi__v1__list_snapshot_deltas_request__descriptor,
				  &message, err);

	if (!rc)
		rc = list_snapshot_deltas_read_request(&page, (const void *)message, &spec, err);
	if (rc)
		return rc;
	csi_timestamp_fill(&page.issued, cairn_now_ns());
	page.issued.nanos = 0; /* the token has a resolution of seconds */
	rc = csi_changes_open(driver, &spec, &page.changes, err);
	if (!rc)
		rc = list_snapshot_deltas_fill_page(&page, err);
	return rc ? rc : list_snapshot_deltas_send_page(call, &page, err);
}
