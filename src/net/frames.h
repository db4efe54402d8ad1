/* SPDX-License-Identifier: Apache-2.0 */

/* Tracks the position of a connection in the HTTP/2 frames it receives, by
 * frame headers only.
 *
 * nghttp2 reports the end of a header block that it accepts and is silent about
 * one that it rejects, so this finds out from the bytes whether a peer is still
 * sending a block.
 */
#ifndef CAIRN_NET_FRAMES_H
#define CAIRN_NET_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NET_FRAME_HEAD_BYTES 9U

struct net_frames {
	uint32_t skip; /* remaining bytes of the preface or of a payload */
	uint8_t head[NET_FRAME_HEAD_BYTES];
	uint8_t have;    /* bytes of `head` */
	bool in_block;   /* a header block has begun and not ended */
	bool last_frame; /* the current frame is the last of its block */
	uint64_t blocks; /* number of header blocks that have begun */
};

/* `preface` bytes come before the first frame. */
void net_frames_init(struct net_frames *frames, uint32_t preface);

/* Takes the same bytes as nghttp2. */
void net_frames_feed(struct net_frames *frames, const uint8_t *data, size_t n);

#endif
