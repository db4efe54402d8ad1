/* SPDX-License-Identifier: Apache-2.0 */

/* Durations as Go writes them: "10m0s", "1h30m", "500ms". */
#ifndef CAIRN_VELERO_GO_DURATION_H
#define CAIRN_VELERO_GO_DURATION_H

#include <stdbool.h>
#include <stdint.h>

/* In milliseconds; units below one are taken and cut. False for anything else, negative
 * durations included. */
bool velero_go_duration(const char *text, uint64_t *ret_ms);

#endif
