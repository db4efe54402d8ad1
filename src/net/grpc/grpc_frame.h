/* SPDX-License-Identifier: Apache-2.0 */

/* gRPC's message framing: one byte "compressed", four bytes length, the
 * message. Bytes in, events out; no buffer, no I/O. */
#ifndef CAIRN_NET_GRPC_FRAME_H
#define CAIRN_NET_GRPC_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRPC_PREFIX_BYTES 5

struct grpc_deframer {
	size_t max; /* longest message accepted */
	size_t length, left;
	bool compressed;
	bool in_message;
	uint8_t have;
	uint8_t prefix[GRPC_PREFIX_BYTES];
};

enum grpc_event {
	GRPC_MORE,      /* all bytes were consumed */
	GRPC_BEGIN,     /* a message begins: `length` and `compressed` are set */
	GRPC_BODY,      /* bytes of it */
	GRPC_END,       /* it is complete */
	GRPC_BAD_FLAG,  /* the first byte is neither 0 nor 1 */
	GRPC_TOO_LARGE, /* `length` is above `max` */
};

void grpc_deframer_init(struct grpc_deframer *d, size_t max);

/* Consumes the next part of *data and advances it and *n. For GRPC_BODY the
 * part is in *ret_body and *ret_n. After a GRPC_BAD_FLAG or GRPC_TOO_LARGE the
 * deframer must not be used again. */
enum grpc_event grpc_deframe(struct grpc_deframer *d, const uint8_t **data, size_t *n,
			     const uint8_t **ret_body, size_t *ret_n);

/* True between messages, which is the only place where a stream may end. */
bool grpc_deframer_idle(const struct grpc_deframer *d);

/* Writes the prefix of a message of `n` bytes. */
void grpc_prefix(uint8_t out[GRPC_PREFIX_BYTES], uint32_t n, bool compressed);

#endif
