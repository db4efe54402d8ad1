/* SPDX-License-Identifier: Apache-2.0 */

/* Whether two cuts of one volume hold the same bytes. */
#ifndef CAIRN_POOL_PROBE_H
#define CAIRN_POOL_PROBE_H

#include <stdbool.h>

struct cairn_err;
struct store;

/* Reads only where the store's map cannot tell (compressed extents say nothing
 * about their place, and a rewrite may have put the same bytes), up to the
 * first difference. */
int probe_same(struct store *store, const char *first_id, const char *second_id, bool *ret_same,
	       struct cairn_err *err);

#endif
