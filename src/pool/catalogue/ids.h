/* SPDX-License-Identifier: Apache-2.0 */

/* The ids that a pool assigns.
 *
 *   vol-<16 hex>            64 random bits
 *   snap-<16 hex>-<number>  its volume's bits, and its number in the pool
 *
 * Numbers are assigned once, in ascending order, so an id that was never
 * assigned can be distinguished from an expired one without storing every id.
 */
#ifndef CAIRN_POOL_IDS_H
#define CAIRN_POOL_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

void pool_ids_format_volume(uint64_t volume, char out[POOL_ID_MAX + 1]);
void pool_ids_format_snapshot(uint64_t volume, uint64_t number, char out[POOL_ID_MAX + 1]);

/* True if `text` is exactly such an id. */
bool pool_ids_parse_volume(const char *text, uint64_t *ret_volume);
bool pool_ids_parse_snapshot(const char *text, uint64_t *ret_volume, uint64_t *ret_number);

#endif
