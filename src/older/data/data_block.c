/* SPDX-License-Identifier: Apache-2.0 */

#include "older/data/data_block.h"

#include "base/buf.h"
#include "base/err.h"
#include "cairn_data.pb-c.h"
#include "net/grpc/grpc_client.h"
#include "proto/message.h"

#define TOKEN_BYTES 8192 /* of a request with a data token */

static int data_block_piece(const uint8_t *data, size_t n, data_piece_fn piece, void *arg,
			    struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Cairn__V1__GetBlockResponse *response;
	int rc = proto_unpack(&cairn__v1__get_block_response__descriptor, data, n, &message, err);

	if (rc)
		return rc;
	response = (const void *)message;
	return piece(arg, response->data.data, response->data.len, err);
}

int data_block_get(struct net_channel *channel, uint64_t timeout_ms, const char *token,
		   const char *holder, data_piece_fn piece, void *arg, struct cairn_err *err)
{
	struct net_rpc_options options = {.path = "/cairn.v1.SnapshotData/GetBlock",
					  .timeout_ms = timeout_ms};
	cairn_cleanup(net_rpc_freep) struct net_rpc *rpc = NULL;
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(TOKEN_BYTES);
	Cairn__V1__GetBlockRequest request;
	const uint8_t *data;
	size_t n;
	int rc;

	cairn__v1__get_block_request__init(&request);
	request.token = proto_text(token);
	request.holder = proto_text(holder);
	proto_pack(&request.base, &bytes);
	if (cairn_buf_failed(&bytes))
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "that is not a data token");
	rc = net_rpc_request(channel, &options, bytes.data, bytes.len, &rpc, err);
	while (!rc && (rc = net_rpc_recv(rpc, &data, &n, err)) == 1)
		rc = data_block_piece(data, n, piece, arg, err);
	return rc;
}
