/* SPDX-License-Identifier: Apache-2.0 */

/* Merging tombstones past their retention time into the snapshots after them. */
#ifndef CAIRN_POOL_EXPIRE_H
#define CAIRN_POOL_EXPIRE_H

struct pool;

/* Merges a few tombstones as a side task of other operations; failures are left
 * for the next call. */
void pool_expire_some(struct pool *pool);

#endif
