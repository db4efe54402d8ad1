/* SPDX-License-Identifier: Apache-2.0 */

/* Control messages: protobuf-c between our allocator and our limits.
 *
 * protobuf-c builds one object for each message inside a message, so two bytes
 * of input can cost a hundred bytes of memory; it takes strings that are not
 * UTF-8; and it ends a string at a NUL byte, so that two peers may see
 * different names. proto_unpack() allows none of these.
 *
 * Objects of ours are set up with the generated `…__init()` functions; the
 * `…__INIT` macros cast constness away, which our warnings refuse.
 */
#ifndef CAIRN_PROTO_MESSAGE_H
#define CAIRN_PROTO_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct cairn_buf;
struct cairn_err;

/* Memory that one message may take when unpacked: stops small input that
 * stands for very many objects. */
#define PROTO_UNPACK_MEMORY_MAX (16U << 20)

/* Messages inside messages; no message in use comes near. */
#define PROTO_DEPTH_MAX 16

/* Unpacks `len` bytes as a message of type `type` (`csi__v1__…__descriptor`).
 * The caller owns the result and frees it with proto_message_free().
 *
 * CAIRN_INVALID   malformed, a string that is no UTF-8 or holds a NUL, or
 *                 messages nested deeper than PROTO_DEPTH_MAX
 * CAIRN_NO_SPACE  would take more than PROTO_UNPACK_MEMORY_MAX, or memory is short
 */
int proto_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len,
		 ProtobufCMessage **ret_message, struct cairn_err *err);

/* Accepts NULL. */
void proto_message_free(ProtobufCMessage *message);

/* Cleanup of a pointer to any generated message. */
void proto_message_freep(void *p);

#define proto_auto_message cairn_cleanup(proto_message_freep)

/* A text of others as a field of an object that is packed: protobuf-c wants char *, but
 * packing does not write to it. NULL is "", which is how an absent one travels. */
char *proto_text(const char *text);

/* Appends the message's bytes; the buffer's failure says whether it worked. */
void proto_pack(const ProtobufCMessage *message, struct cairn_buf *buf);

#endif
