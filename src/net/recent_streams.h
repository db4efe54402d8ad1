/* SPDX-License-Identifier: Apache-2.0 */

/* The streams that a peer opened last, for HTTP/2's rules on closed streams.
 *
 * A frame for a closed stream is an error of the peer, unless we closed the
 * stream and the peer could not know yet. nghttp2 detects some of these and
 * ignores others (a header block after the peer's own reset, or on a skipped
 * number). This keeps a few numbers, so that such a peer gets an error. Frames
 * for older streams are still ignored, because nothing is known about them.
 */
#ifndef CAIRN_NET_RECENT_H
#define CAIRN_NET_RECENT_H

#include <stdbool.h>
#include <stdint.h>

#define NET_RECENT_STREAMS 16

struct net_recent_streams {
	struct {
		int32_t id;
		bool closed; /* by both sides, or by the peer's reset */
	} streams[NET_RECENT_STREAMS];
	unsigned next;
	int32_t last; /* the highest number so far */
};

/* The peer opens a stream, which we may still refuse; `id` is above `last`. */
void net_recent_streams_open(struct net_recent_streams *recent, int32_t id);

/* The stream was closed; `ours` when we reset it. */
void net_recent_streams_close(struct net_recent_streams *recent, int32_t id, bool ours);

/* For a frame on a stream that no longer exists: 0 to ignore it, else the
 * HTTP/2 error to report. */
uint32_t net_recent_streams_error(const struct net_recent_streams *recent, int32_t id,
				  bool is_headers);

#endif
