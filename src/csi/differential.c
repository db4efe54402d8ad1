/* SPDX-License-Identifier: Apache-2.0 */

/* csi.v1.DifferentialSnapshot: changed blocks in pages.
 *
 * Offsets are bytes in decimal. A page ends at the end of a range, so that pages of any
 * size yield the same ranges. With the parameter "dataTokens", each block's context
 * contains a token for GetBlock.
 */

#include "csi/service.h"

#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "csi/changes.h"
#include "csi/data_token.h"
#include "csi_differential.pb-c.h"
#include "net/grpc/call.h"
#include "proto/message.h"

/* Limit of the blocks in one response: 1.7 MiB, below the default limit of 4 MiB in gRPC
 * clients. Blocks with a token are larger. */
#define BLOCKS_MAX       65536U
#define TOKEN_BLOCKS_MAX 10000U

#define OFFSET_TEXT_MAX 24

struct block {
	Csi__V1__ChangedBlock message;
	char *token; /* NULL: none */
};

struct page {
	struct csi_driver *driver;
	struct csi_changes *changes;
	struct csi_token_sealer *sealer; /* created with the first token */
	bool tokens;
	const char *holder; /* borrowed from the request */
	uint64_t now_s;
	size_t max;
	size_t n;
	size_t room;
	struct block *blocks;
	char next_offset[OFFSET_TEXT_MAX];
};

static void differential_page_done(struct page *page)
{
	for (size_t i = 0; i < page->n; i++)
		free(page->blocks[i].token);
	free(page->blocks);
	csi_token_sealer_free(page->sealer);
	csi_changes_freep(&page->changes);
}

static int add_token(struct page *page, struct block *block, struct cairn_err *err)
{
	struct csi_data_token token = {
		.offset = block->message.offset,
		.length = block->message.size,
		.issued_s = page->now_s,
		.ttl_s = page->driver->token_ttl_s,
		.holder = page->holder,
	};
	size_t n;
	int rc = page->sealer ? 0
			      : csi_token_sealer_new(&page->driver->token_key, &page->sealer, err);

	if (rc)
		return rc;
	memcpy(token.snapshot, csi_changes_target(page->changes)->id, sizeof(token.snapshot));
	block->token = cairn_alloc(CSI_TOKEN_TEXT_MAX + 1);
	n = block->token ? csi_token_seal(page->sealer, &token, block->token) : 0;
	if (n == 0)
		return cairn_err_nomem(err, "data token");
	block->message.context.data = (uint8_t *)block->token;
	block->message.context.len = n;
	return 0;
}

static int differential_add_block(struct page *page, const struct block_extent *extent,
				  struct cairn_err *err)
{
	struct block *block;

	if (page->n == page->room) {
		size_t room = page->room ? page->room * 2 : 64;
		struct block *more = cairn_realloc_array(page->blocks, room, sizeof(*more));

		if (!more)
			return cairn_err_nomem(err, "page");
		page->blocks = more;
		page->room = room;
	}
	block = &page->blocks[page->n++];
	block->token = NULL;
	csi__v1__changed_block__init(&block->message);
	block->message.offset = extent->offset;
	block->message.size = extent->length;
	block->message.zero_out = extent->zero;
	return page->tokens ? add_token(page, block, err) : 0;
}

static int differential_fill_page(struct page *page, struct cairn_err *err)
{
	struct block_extent extent;
	bool some = true;

	for (;;) {
		int rc = csi_changes_next(page->changes, &extent, &some, err);

		if (rc || !some)
			return rc;
		if (page->n == page->max)
			break;
		rc = differential_add_block(page, &extent, err);
		if (rc)
			return rc;
	}
	page->next_offset[cairn_format_u64(extent.offset, page->next_offset)] = '\0';
	return 0;
}

/* Only a deleted base expires; all others exist until they are deleted. */
static uint64_t available_until(const struct page *page)
{
	const struct pool_snapshot *base = csi_changes_base(page->changes);

	return base && base->deleted ? base->expires_ns / CAIRN_NS_PER_SEC : 0;
}

static int differential_send_page(struct net_call *call, struct page *page, struct cairn_err *err)
{
	cairn_auto_free Csi__V1__ChangedBlock **list =
		cairn_calloc(page->n ? page->n : 1, sizeof(Csi__V1__ChangedBlock *));
	cairn_auto_buf struct cairn_buf reply = CAIRN_BUF_INIT(CSI_REPLY_MAX);
	Csi__V1__DifferentialSnapshotResponse response;
	int rc;

	if (!list)
		return cairn_err_nomem(err, "page");
	for (size_t i = 0; i < page->n; i++)
		list[i] = &page->blocks[i].message;
	csi__v1__differential_snapshot_response__init(&response);
	response.change_block_list = list;
	response.n_change_block_list = page->n;
	response.next_offset = page->next_offset;
	response.volume_size = csi_changes_target(page->changes)->size;
	response.timeout = available_until(page);
	response.holder_bound = page->tokens && page->holder[0];
	rc = csi_reply(&reply, &response.base, err);
	return rc ? rc : net_call_send(call, reply.data, reply.len, err);
}

static int differential_read_parameters(struct page *page,
					const Csi__V1__DifferentialSnapshotRequest *request,
					struct cairn_err *err)
{
	for (size_t i = 0; i < request->n_parameters; i++) {
		const char *key = request->parameters[i]->key;
		const char *value = request->parameters[i]->value;

		if (strcmp(key, "dataTokens") != 0)
			continue; /* belongs to another driver */
		if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
			return cairn_err_set(err, CAIRN_INVALID,
					     "the parameter dataTokens is 'true' or 'false'");
		page->tokens = value[0] == 't';
	}
	page->max = page->tokens ? TOKEN_BLOCKS_MAX : BLOCKS_MAX;
	if (request->max_entries && request->max_entries < page->max)
		page->max = request->max_entries;
	return 0;
}

static int differential_read_request(struct page *page,
				     const Csi__V1__DifferentialSnapshotRequest *request,
				     struct csi_changes_spec *spec, struct cairn_err *err)
{
	int rc = csi_require(request->snapshot_target, "SnapshotTarget", err);

	if (rc)
		return rc;
	if (request->mode[0] && strcasecmp(request->mode, "Block") != 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "mode '%.32s' is not offered, only Block is", request->mode);
	if (request->start_offset[0]) {
		rc = cairn_parse_u64(request->start_offset, &spec->start, err);
		if (rc)
			return cairn_err_set(err, CAIRN_INVALID, "invalid StartOffset '%.32s'",
					     request->start_offset);
	}
	page->holder = request->holder;
	spec->base = request->snapshot_base;
	spec->target = request->snapshot_target;
	return differential_read_parameters(page, request, err);
}

int csi_differential_get(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__DifferentialSnapshotRequest *request;
	cairn_cleanup(differential_page_done) struct page page = {
		.driver = arg,
		.now_s = cairn_now_ns() / CAIRN_NS_PER_SEC,
	};
	struct csi_changes_spec spec = {.all_if_unknown = true, .call = call};
	int rc = csi_request_recv(call, &csi__v1__differential_snapshot_request__descriptor,
				  &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = differential_read_request(&page, request, &spec, err);
	if (!rc)
		rc = csi_changes_open(page.driver, &spec, &page.changes, err);
	if (!rc && request->volume_id[0] &&
	    strcmp(request->volume_id, csi_changes_target(page.changes)->volume_id) != 0)
		rc = cairn_err_set(err, CAIRN_INVALID, "'%s' is not a snapshot of volume '%s'",
				   request->snapshot_target, request->volume_id);
	if (!rc)
		rc = differential_fill_page(&page, err);
	return rc ? rc : differential_send_page(call, &page, err);
}
