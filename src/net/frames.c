/* SPDX-License-Identifier: Apache-2.0 */

#include "net/frames.h"

#include <nghttp2/nghttp2.h>
#include <string.h>

void net_frames_init(struct net_frames *frames, uint32_t preface)
{
	*frames = (struct net_frames){.skip = preface};
}

static void end_payload(struct net_frames *frames)
{
	if (frames->last_frame)
		frames->in_block = frames->last_frame = false;
}

static void begin_frame(struct net_frames *frames)
{
	const uint8_t *head = frames->head;
	uint8_t type = head[3];

	frames->have = 0;
	frames->skip = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
	if (type == NGHTTP2_HEADERS || type == NGHTTP2_PUSH_PROMISE) {
		frames->in_block = true;
		frames->blocks++;
	}
	if (type == NGHTTP2_HEADERS || type == NGHTTP2_PUSH_PROMISE || type == NGHTTP2_CONTINUATION)
		frames->last_frame = head[4] & NGHTTP2_FLAG_END_HEADERS;
	if (frames->skip == 0)
		end_payload(frames);
}

void net_frames_feed(struct net_frames *frames, const uint8_t *data, size_t n)
{
	while (n > 0) {
		size_t want = frames->skip ? frames->skip : NET_FRAME_HEAD_BYTES - frames->have;
		size_t part = n < want ? n : want;

		if (frames->skip) {
			frames->skip -= (uint32_t)part;
			if (frames->skip == 0)
				end_payload(frames);
		} else {
			memcpy(frames->head + frames->have, data, part);
			frames->have = (uint8_t)(frames->have + part);
			if (frames->have == NET_FRAME_HEAD_BYTES)
				begin_frame(frames);
		}
		data += part;
		n -= part;
	}
}
