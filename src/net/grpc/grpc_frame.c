/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/grpc_frame.h"

#include <string.h>

void grpc_deframer_init(struct grpc_deframer *d, size_t max)
{
	*d = (struct grpc_deframer){.max = max};
}

static enum grpc_event take_prefix(struct grpc_deframer *d, const uint8_t **data, size_t *n)
{
	size_t part = GRPC_PREFIX_BYTES - d->have;

	if (part > *n)
		part = *n;
	memcpy(d->prefix + d->have, *data, part);
	d->have += (uint8_t)part;
	*data += part;
	*n -= part;
	if (d->have < GRPC_PREFIX_BYTES)
		return GRPC_MORE;

	d->length = (size_t)d->prefix[1] << 24 | (size_t)d->prefix[2] << 16 |
		    (size_t)d->prefix[3] << 8 | d->prefix[4];
	if (d->prefix[0] > 1)
		return GRPC_BAD_FLAG;
	if (d->length > d->max)
		return GRPC_TOO_LARGE;
	d->compressed = d->prefix[0] == 1;
	d->left = d->length;
	d->have = 0;
	d->in_message = true;
	return GRPC_BEGIN;
}

enum grpc_event grpc_deframe(struct grpc_deframer *d, const uint8_t **data, size_t *n,
			     const uint8_t **ret_body, size_t *ret_n)
{
	size_t part;

	if (d->in_message && d->left == 0) {
		d->in_message = false;
		return GRPC_END;
	}
	if (*n == 0)
		return GRPC_MORE;
	if (!d->in_message)
		return take_prefix(d, data, n);
	part = d->left < *n ? d->left : *n;
	*ret_body = *data;
	*ret_n = part;
	*data += part;
	*n -= part;
	d->left -= part;
	return GRPC_BODY;
}

bool grpc_deframer_idle(const struct grpc_deframer *d)
{
	return !d->in_message && d->have == 0;
}

void grpc_prefix(uint8_t out[GRPC_PREFIX_BYTES], uint32_t n, bool compressed)
{
	out[0] = compressed;
	out[1] = (uint8_t)(n >> 24);
	out[2] = (uint8_t)(n >> 16);
	out[3] = (uint8_t)(n >> 8);
	out[4] = (uint8_t)n;
}
