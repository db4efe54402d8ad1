/* SPDX-License-Identifier: Apache-2.0 */

/* Whether two cuts of one volume hold the same bytes. */
#ifndef CAIRN_POOL_PROBE_H
#define CAIRN_POOL_PROBE_H

#include <stdbool.h>

struct cairn_err;
struct store;

/* Reads data only where the store's map proves nothing (the place of compressed
 * extents is unknown, and a rewrite may have written the same bytes), up to the
 * first difference. */
int pool_cuts_are_same(struct store *store, const char *first_id, const char *second_id,
		       bool *ret_same, struct cairn_err *err);

#endif
