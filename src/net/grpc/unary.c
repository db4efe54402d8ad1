/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/unary.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "net/grpc/grpc_client.h"
#include "proto/message.h"

int net_unary(struct net_channel *channel, const char *path, uint64_t timeout_ms,
	      const ProtobufCMessage *request, const ProtobufCMessageDescriptor *type,
	      ProtobufCMessage **ret, struct cairn_err *err)
{
	struct net_rpc_options options = {
		.path = path, .timeout_ms = timeout_ms, .wait_for_ready = true};
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(NET_ASK_REQUEST_MAX);
	cairn_auto_free uint8_t *answer = NULL;
	size_t n = 0;
	int rc;

	proto_pack(request, &bytes);
	if (cairn_buf_failed(&bytes))
		return cairn_err_set(err, CAIRN_INVALID, "the request is too large");
	rc = net_rpc_unary(channel, &options, bytes.data, bytes.len, &answer, &n, err);
	if (!rc && proto_unpack(type, answer, n, ret, err) != 0)
		rc = cairn_err_set(err, CAIRN_INTERNAL, "the answer is not a message of %s", path);
	return rc;
}
