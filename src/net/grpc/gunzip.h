/* SPDX-License-Identifier: Apache-2.0 */

/* Decompression of one message, never beyond the message limit. */
#ifndef CAIRN_NET_GUNZIP_H
#define CAIRN_NET_GUNZIP_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct net_msg;
struct net_stream;

/* Replaces stream->current by its decompressed form.
 *
 * CAIRN_INTERNAL  not gzip data
 * CAIRN_NO_SPACE  larger than the stream's message limit
 */
int net_gunzip_current(struct net_stream *stream, struct cairn_err *err);

/* The same for bytes. The caller frees the message with free(). */
int net_gunzip(const uint8_t *data, size_t n, size_t max, struct net_msg **ret,
	       struct cairn_err *err);

#endif
