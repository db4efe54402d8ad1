/* SPDX-License-Identifier: Apache-2.0 */

/* Writes the whole index again, into as many files as necessary. */
#ifndef CAIRN_REPO_INDEX_WRITE_H
#define CAIRN_REPO_INDEX_WRITE_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_index_order;

/* Writes the packs for which `keeps` is true into new files, as they are in the index
 * in memory. With `lost`, blobs that only packs in the state REPO_PACK_GONE held are
 * listed as lost in the last of them. */
int repo_index_write(struct repo *repo, const struct repo_index_order *order,
		     bool (*keeps)(void *arg, uint32_t pack), void *arg, bool lost,
		     struct cairn_err *err);

#endif
