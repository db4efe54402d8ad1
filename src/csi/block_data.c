/* SPDX-License-Identifier: Apache-2.0 */

/* cairn.v1.SnapshotData: returns the data that a token authorizes. */

#include "csi/service.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cairn_data.pb-c.h"
#include "csi/data_token.h"
#include "net/grpc/call.h"
#include "pool/store/store.h"
#include "proto/message.h"

#define PIECE (256U << 10)

struct sending {
	struct net_call *call;
	struct store_reader *reader;
	uint64_t at;
	uint64_t end;
	uint8_t *piece;
};

static int block_data_send_piece(struct sending *s, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(PIECE + 64);
	uint64_t left = s->end - s->at;
	Cairn__V1__GetBlockResponse response;
	size_t n;
	int rc = pool_store_reader_read(s->reader, s->at, s->piece, left < PIECE ? left : PIECE, &n,
					err);

	if (rc)
		return rc;
	if (n == 0)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "the snapshot's data ends too early");
	cairn__v1__get_block_response__init(&response);
	response.offset = s->at;
	response.data.data = s->piece;
	response.data.len = n;
	s->at += n;
	proto_pack(&response.base, &buf);
	if (cairn_buf_failed(&buf))
		return cairn_err_nomem(err, "block");
	return net_call_send(s->call, buf.data, buf.len, err);
}

static int send_range(struct net_call *call, struct pool *pool, const struct csi_data_token *token,
		      uint64_t size, struct cairn_err *err)
{
	cairn_cleanup(pool_store_reader_freep) struct store_reader *reader = NULL;
	cairn_auto_free uint8_t *piece = cairn_alloc(PIECE);
	struct sending s = {.call = call, .at = token->offset, .piece = piece};
	int rc;

	if (!piece)
		return cairn_err_nomem(err, "block");
	if (__builtin_add_overflow(token->offset, token->length, &s.end) || s.end > size)
		s.end = size;
	rc = pool_snapshot_reader(pool, token->snapshot, &reader, err);
	s.reader = reader;
	while (!rc && s.at < s.end)
		rc = block_data_send_piece(&s, err);
	return rc ? rc : net_call_check(call);
}

int csi_block_get(struct net_call *call, void *arg, struct cairn_err *err)
{
	struct csi_driver *driver = arg;
	proto_auto_message ProtobufCMessage *message = NULL;
	const Cairn__V1__GetBlockRequest *request;
	struct pool_snapshot snapshot;
	struct csi_data_token token;
	struct pool *pool;
	int rc = csi_request_recv(call, &cairn__v1__get_block_request__descriptor, &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = csi_data_token_open(&driver->token_key, request->token, request->holder,
				 cairn_now_ns() / CAIRN_NS_PER_SEC, &token, err);
	if (!rc)
		rc = csi_find_snapshot(driver, token.snapshot, &pool, &snapshot, err);
	return rc ? rc : send_range(call, pool, &token, snapshot.size, err);
}
