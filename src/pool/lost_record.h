/* SPDX-License-Identifier: Apache-2.0 */

/* Whether an object without a record was deleted, or its record is lost.
 *
 * A deletion that is repeated succeeds if the object is gone, so a record that damage
 * removed must not look like one that a deletion removed. A deletion puts the object on
 * the list of cleanups in the commit that removes the record, and takes it off the list
 * when the data is removed: data without a record and without an entry in the list has
 * lost its record.
 */
#ifndef CAIRN_POOL_LOST_RECORD_H
#define CAIRN_POOL_LOST_RECORD_H

#include "pool/store/store.h"

struct cairn_err;
struct pool;

/* Called after the record was not found. The caller then reads the record once more,
 * because another process may have created it in between.
 *
 * CAIRN_DATA_LOSS  the object has data
 */
int pool_lost_record_check(struct pool *pool, struct store_ref ref, struct cairn_err *err);

#endif
