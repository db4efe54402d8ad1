/* SPDX-License-Identifier: Apache-2.0 */

/* The bytes of damaged values that a repair replaces: kept in the catalogue under
 * "q/<ns>/<key>", by the commit that replaces them. Volumes, snapshots and sets
 * in quarantine are in their own directories, see store.h and setfile.h. */
#ifndef CAIRN_POOL_QUARANTINE_H
#define CAIRN_POOL_QUARANTINE_H

#include <stdint.h>

#include "pool/catalogue/catalogue.h"

struct cairn_err;
struct pool;

/* Keeps the bytes stored under `key`, and makes the batch expect them to be
 * unchanged; if nothing is stored, it expects that. */
int pool_quarantine_keep_value(struct catalogue *cat, struct catalogue_batch *batch,
			       struct catalogue_bytes key, struct cairn_err *err);

int pool_quarantine_count(struct pool *pool, uint64_t *ret, struct cairn_err *err);

#endif
