/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots as JSON: pure. */
#ifndef CAIRN_REPO_SNAPSHOT_JSON_H
#define CAIRN_REPO_SNAPSHOT_JSON_H

#include <stddef.h>

struct cairn_buf;
struct cairn_err;
struct repo_snapshot;

/* `hostname` is used if the snapshot has none. */
void repo_snapshot_encode(const struct repo_snapshot *snapshot, const char *hostname,
			  struct cairn_buf *out);

/* The id is not set. CAIRN_DATA_LOSS: not a snapshot. */
int repo_snapshot_decode(const char *json, size_t n, struct repo_snapshot **ret,
			 struct cairn_err *err);

#endif
