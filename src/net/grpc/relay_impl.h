/* SPDX-License-Identifier: Apache-2.0 */

/* Notifications from streams to a relay; each on the loop of the stream that
 * calls. */
#ifndef CAIRN_NET_RELAY_IMPL_H
#define CAIRN_NET_RELAY_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_relay;

/* DATA arrived from upstream. */
void net_relay_data(struct net_relay *relay, const uint8_t *data, size_t n);

/* True if upstream may send more. */
bool net_relay_has_room(struct net_relay *relay);

/* Bytes were sent to the downstream peer. */
void net_relay_drained(struct net_relay *relay);

/* One of the two streams has ended; called with that stream's lock held. */
void net_relay_poke(struct net_relay *relay);

#endif
