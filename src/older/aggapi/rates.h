/* SPDX-License-Identifier: Apache-2.0 */

/* Rate limit per user.
 *
 * One token bucket per user, in a table of fixed size. Users that collide share a bucket:
 * a peer with many names can slow others down a little, but cannot grow memory.
 * Thread-safe; the caller supplies the clock.
 */
#ifndef CAIRN_AGGAPI_RATES_H
#define CAIRN_AGGAPI_RATES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

struct aggapi_rates;
struct cairn_err;

/* `per_second` 0 is no limit. */
int aggapi_rates_new(uint64_t per_second, uint64_t burst, struct aggapi_rates **ret,
		     struct cairn_err *err);
void aggapi_rates_free(struct aggapi_rates *rates);
CAIRN_DEFINE_CLEANUP(struct aggapi_rates, aggapi_rates_free);

/* Returns true if the user may make a request now; else the seconds to wait, at least 1. */
bool aggapi_rates_take(struct aggapi_rates *rates, const char *user, uint64_t now_ns,
		       uint64_t *ret_wait_s);

#endif
