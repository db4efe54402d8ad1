/* SPDX-License-Identifier: Apache-2.0 */

/* The streams that a peer opened last, as HTTP/2 wants them remembered.
 *
 * A frame for a stream that is over is an error of the peer, unless we ended
 * the stream and the peer could not know yet. nghttp2 finds some of these and
 * ignores others (a header block after the peer's own reset, or on a number
 * that was passed over); this keeps a few numbers, so that a confused peer
 * learns of it. What is older than them is ignored as before: nothing is
 * refused on a guess.
 */
#ifndef CAIRN_NET_RECENT_H
#define CAIRN_NET_RECENT_H

#include <stdbool.h>
#include <stdint.h>

#define NET_RECENT_STREAMS 16

struct net_recent {
	struct {
		int32_t id;
		bool closed; /* by both sides, or by the peer's reset */
	} streams[NET_RECENT_STREAMS];
	unsigned next;
	int32_t last; /* the highest number so far */
};

/* The peer opens a stream, which we may still refuse; `id` is above `last`. */
void net_recent_open(struct net_recent *recent, int32_t id);

/* It is over; `ours` when we reset it. */
void net_recent_close(struct net_recent *recent, int32_t id, bool ours);

/* For a frame on a stream that does not exist any more: 0 to ignore it, else
 * the HTTP/2 error that it is. */
uint32_t net_recent_error(const struct net_recent *recent, int32_t id, bool is_headers);

#endif
