/* SPDX-License-Identifier: Apache-2.0 */

/* Fetches the data that a driver's token authorizes. */
#ifndef CAIRN_DATA_BLOCK_H
#define CAIRN_DATA_BLOCK_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct net_channel;

/* Takes the next bytes. A value other than 0 ends the call and is returned. */
typedef int (*data_piece_fn)(void *arg, const void *data, size_t n, struct cairn_err *err);

/* Reads the data of a block, in pieces, with a data token of the driver and the text that
 * it was bound to (data_holder.h). Blocks.
 *
 * CAIRN_UNAUTHENTICATED and others: the driver's answer to the token
 */
int data_block_get(struct net_channel *channel, uint64_t timeout_ms, const char *token,
		   const char *holder, data_piece_fn piece, void *arg, struct cairn_err *err);

#endif
