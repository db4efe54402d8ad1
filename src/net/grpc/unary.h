/* SPDX-License-Identifier: Apache-2.0 */

/* A unary call with protobuf request and response messages. */
#ifndef CAIRN_NET_ASK_H
#define CAIRN_NET_ASK_H

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

struct cairn_err;
struct net_channel;

/* Maximum size of the packed request. */
#define NET_ASK_REQUEST_MAX (4U << 20)

/* Retries failed connection attempts until the timeout. *ret is of type `type`;
 * the caller frees it with proto_message_free().
 *
 * CAIRN_INVALID   the request is too large
 * CAIRN_INTERNAL  the response is not a message of that type
 * others: the call's status
 */
int net_unary(struct net_channel *channel, const char *path, uint64_t timeout_ms,
	      const ProtobufCMessage *request, const ProtobufCMessageDescriptor *type,
	      ProtobufCMessage **ret, struct cairn_err *err);

#endif
