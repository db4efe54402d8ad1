/* SPDX-License-Identifier: Apache-2.0 */

/* The back end for any filesystem: snapshots are sparse copies, and what
 * changed is found by comparing bytes.
 *
 * It is slow and obviously right, so tests hold the other back ends to it. A
 * copy takes time: a volume that is written meanwhile is copied anew a few
 * times and then refused.
 */
#ifndef CAIRN_POOL_COPY_COPY_H
#define CAIRN_POOL_COPY_COPY_H

#include <stdbool.h>

struct cairn_err;
struct store;

int copy_store_open(const char *dir, bool writable, struct store **ret, struct cairn_err *err);

#endif
