/* SPDX-License-Identifier: Apache-2.0 */

/* Merging tombstones past their retention time into the snapshots after them. */
#ifndef CAIRN_POOL_EXPIRE_H
#define CAIRN_POOL_EXPIRE_H

struct pool;

/* Merges a few, as a by-work of other operations; what fails is left for the
 * next time. */
void expire_some(struct pool *pool);

#endif
