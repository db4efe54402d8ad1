/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/service_message.h"

#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "net/grpc/call.h"
#include "proto/message.h"
#include "velero/services.h"

/* A reply contains the item and, in addition, labels and related items. */
#define REPLY_MAX (2U * VELERO_REQUEST_MAX)

int velero_receive(struct net_call *call, const ProtobufCMessageDescriptor *type,
		   ProtobufCMessage **ret, struct cairn_err *err)
{
	const uint8_t *data = NULL;
	size_t n = 0;
	int rc = net_call_recv(call, &data, &n, err);

	return rc < 0 ? rc : proto_unpack(type, data, n, ret, err);
}

int velero_reply(struct net_call *call, const ProtobufCMessage *message, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(REPLY_MAX);

	proto_pack(message, &buf);
	if (cairn_buf_failed(&buf))
		return cairn_err_nomem(err, "an answer");
	return net_call_send(call, buf.data, buf.len, err);
}
