/* SPDX-License-Identifier: Apache-2.0 */

/* The memory of a loop's nghttp2 sessions.
 *
 * A small call makes nghttp2 allocate half a dozen small blocks and free them
 * soon after. Those of one loop are only ever touched by its thread, so freed
 * blocks are kept in lists by size and reused without the allocator's locks.
 */
#ifndef CAIRN_NET_RECYCLE_H
#define CAIRN_NET_RECYCLE_H

#include <nghttp2/nghttp2.h>
#include <stddef.h>

#define NET_RECYCLE_CLASSES 5 /* blocks of up to 64, 128, 256, 512 and 1024 bytes */

/* Number of free blocks of each class that are kept: none under
 * AddressSanitizer, which finds the use of freed memory only if it is really
 * freed. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define NET_RECYCLE_KEPT 0
#else
#define NET_RECYCLE_KEPT 128
#endif

struct net_alloc_cache_block;

struct net_alloc_cache {
	nghttp2_mem mem; /* for nghttp2_session_*_new3() */
	struct net_alloc_cache_block *free[NET_RECYCLE_CLASSES];
	unsigned kept[NET_RECYCLE_CLASSES];
};

/* Must not be moved, and must outlive its sessions. */
void net_alloc_cache_init(struct net_alloc_cache *recycle);
void net_alloc_cache_done(struct net_alloc_cache *recycle);

#endif
