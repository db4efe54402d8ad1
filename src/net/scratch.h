/* SPDX-License-Identifier: Apache-2.0 */

/* Buffers and small memory that all connections of a loop share.
 *
 * Bytes pass through them within one turn of the loop, so an idle connection
 * holds no buffer at all. Only bytes that the socket did not accept are copied
 * to memory of the connection.
 */
#ifndef CAIRN_NET_SCRATCH_H
#define CAIRN_NET_SCRATCH_H

#include <stddef.h>
#include <stdint.h>

#include "net/alloc_cache.h"
#include "net/unsent.h"

struct net_loop;
struct net_task;

#define NET_READ_BYTES      (64U << 10)  /* read from a socket at once */
#define NET_PLAIN_BYTES     (32U << 10)  /* decrypted at once; two TLS records */
#define NET_WRITE_BYTES     (256U << 10) /* frames collected for one write */
#define NET_FRAME_BYTES_MAX (64U << 10)  /* of one DATA frame, either way */
#define NET_FRAME_ROOM      (80U << 10)  /* what one more frame may add when that is nearly full */

/* A record adds at most 5 + 16 + 256 bytes to 16 KiB; plus room for the end of
 * a handshake or a key update. */
#define NET_CIPHER_BYTES (NET_WRITE_BYTES + NET_FRAME_ROOM + (64U << 10))

_Static_assert(NET_FRAME_ROOM >= NET_FRAME_BYTES_MAX + 9 + 256, "a frame fits behind a full batch");

struct net_scratch {
	struct net_alloc_cache recycle;
	uint8_t raw[NET_READ_BYTES];
	uint8_t plain[NET_PLAIN_BYTES];
	uint8_t frames[NET_WRITE_BYTES + NET_FRAME_ROOM];
	size_t frames_len;
	uint8_t cipher[NET_CIPHER_BYTES];
	size_t cipher_len;
	struct net_unsent_spare spare;
};

/* Both on the loop's thread only. A late task runs when the events and posted
 * tasks of this turn are done. */
struct net_scratch *net_loop_scratch(struct net_loop *loop);
void net_loop_late(struct net_loop *loop, struct net_task *task);
void net_loop_drop_late(struct net_loop *loop, struct net_task *task);

#endif
