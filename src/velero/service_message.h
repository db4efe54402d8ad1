/* SPDX-License-Identifier: Apache-2.0 */

/* Requests and replies of unary methods. */
#ifndef CAIRN_VELERO_SERVICE_MESSAGE_H
#define CAIRN_VELERO_SERVICE_MESSAGE_H

#include <protobuf-c/protobuf-c.h>

struct cairn_err;
struct net_call;

/* The caller frees *ret with proto_message_free(). */
int velero_receive(struct net_call *call, const ProtobufCMessageDescriptor *type,
		   ProtobufCMessage **ret, struct cairn_err *err);

int velero_reply(struct net_call *call, const ProtobufCMessage *message, struct cairn_err *err);

#endif
