/* SPDX-License-Identifier: Apache-2.0 */

/* The back end for any filesystem: snapshots are sparse copies, and changes are
 * found by comparing bytes.
 *
 * It is slow and simple, so tests use it as the reference for the other back
 * ends. A copy takes time: if the volume is written to meanwhile, the copy is
 * repeated a few times and then fails.
 */
#ifndef CAIRN_POOL_COPY_COPY_H
#define CAIRN_POOL_COPY_COPY_H

#include <stdbool.h>

struct cairn_err;
struct store;

int copy_store_open(const char *dir, bool writable, struct store **ret, struct cairn_err *err);

#endif
