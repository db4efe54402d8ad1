/* SPDX-License-Identifier: Apache-2.0 */

/* Control messages: protobuf-c with our allocator and our limits.
 *
 * protobuf-c builds one object for each nested message, so two bytes of input can cost a
 * hundred bytes of memory; it accepts strings that are not UTF-8; and it ends a string at
 * a NUL byte, so that two peers may see different names. proto_unpack() allows none of
 * these.
 *
 * Initialize objects with the generated `…__init()` functions; the `…__INIT` macros cast
 * const away, which our warnings reject.
 */
#ifndef CAIRN_PROTO_MESSAGE_H
#define CAIRN_PROTO_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct cairn_buf;
struct cairn_err;

/* Limit of the memory of one unpacked message, against small input that expands to very
 * many objects. */
#define PROTO_UNPACK_MEMORY_MAX (16U << 20)

/* Limit of nested messages; no message in use comes near. */
#define PROTO_DEPTH_MAX 16

/* Unpacks `len` bytes as a message of type `type` (`csi__v1__…__descriptor`).
 * The caller owns the result and frees it with proto_message_free().
 *
 * CAIRN_INVALID   malformed, a string that is not UTF-8 or contains a NUL, or
 *                 messages nested deeper than PROTO_DEPTH_MAX
 * CAIRN_NO_SPACE  would take more than PROTO_UNPACK_MEMORY_MAX, or memory is short
 */
int proto_unpack(const ProtobufCMessageDescriptor *type, const uint8_t *data, size_t len,
		 ProtobufCMessage **ret_message, struct cairn_err *err);

/* Accepts NULL. */
void proto_message_free(ProtobufCMessage *message);

/* Cleanup function for a pointer to any generated message. */
void proto_message_freep(void *p);

#define proto_auto_message cairn_cleanup(proto_message_freep)

/* Casts a borrowed string for a field of an object that is packed: protobuf-c requires
 * char *, but packing does not write to it. NULL becomes "", the encoding of an absent
 * string. */
char *proto_text(const char *text);

/* Appends the message's bytes; check the buffer's failure flag. */
void proto_pack(const ProtobufCMessage *message, struct cairn_buf *buf);

#endif
