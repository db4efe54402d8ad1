/* SPDX-License-Identifier: Apache-2.0 */

#include "net/recent_streams.h"

#include <nghttp2/nghttp2.h>

void net_recent_streams_open(struct net_recent_streams *recent, int32_t id)
{
	recent->streams[recent->next].id = id;
	recent->streams[recent->next].closed = false;
	recent->last = id;
	recent->next = (recent->next + 1) % NET_RECENT_STREAMS;
}

void net_recent_streams_close(struct net_recent_streams *recent, int32_t id, bool ours)
{
	for (unsigned i = 0; i < NET_RECENT_STREAMS; i++)
		if (recent->streams[i].id == id)
			recent->streams[i].closed = !ours;
}

uint32_t net_recent_streams_error(const struct net_recent_streams *recent, int32_t id,
				  bool is_headers)
{
	/* The slot that is overwritten next holds the oldest stream, or 0. */
	int32_t oldest = recent->streams[recent->next].id;

	for (unsigned i = 0; i < NET_RECENT_STREAMS; i++)
		if (recent->streams[i].id == id)
			return recent->streams[i].closed ? NGHTTP2_STREAM_CLOSED : 0;
	/* Stream ids ascend, so an unknown id above the oldest one was never used. */
	return is_headers && id > oldest ? NGHTTP2_PROTOCOL_ERROR : 0;
}
