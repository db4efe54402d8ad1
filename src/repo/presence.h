/* SPDX-License-Identifier: Apache-2.0 */

/* Detects packs that the index names and the store lacks.
 *
 * A pack may be lost or truncated while index files still name it: by a disk, an
 * `rm`, a lifecycle rule of a bucket. A backup that trusts the index would then refer
 * to missing data. So every writer first compares the index with the store's listing.
 * The listing must be taken after the index was loaded: a pack is stored before an
 * index file names it, so a pack that is named but not listed is lost.
 */
#ifndef CAIRN_REPO_PRESENCE_H
#define CAIRN_REPO_PRESENCE_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_id;
struct repo_index;
struct repo_names;

/* The expected size of each pack of the index; *ret is owned by the caller. */
int repo_pack_sizes(struct repo_index *index, uint64_t **ret, struct cairn_err *err);

/* A listing without packs is an error if the index names some: it is more likely
 * that the listing is wrong.
 *
 * CAIRN_DATA_LOSS  no packs listed, but some in the index
 */
int repo_listing_check(struct repo_index *index, const struct repo_names *packs,
		       struct cairn_err *err);

/* Lists the packs; blobs of missing or truncated packs are no longer found, and are
 * stored again when they are put. Costs one listing: a request for every 1000 packs on
 * S3, one on a REST server. The index must be loaded. *ret_gone is the number of
 * missing packs.
 *
 * CAIRN_DATA_LOSS  the listing is empty, the index is not
 * CAIRN_ABORTED    packs are missing because another process deleted them during our
 *                  early lock (repo_settle())
 */
int repo_confirm_packs(struct repo *repo, uint64_t *ret_gone, struct cairn_err *err);

/* Records that a blob of the pack could not be opened. From any number of
 * threads. */
void repo_doubt_pack(struct repo *repo, const struct repo_id *pack);

/* Treats doubted packs as missing from here on: where one blob is damaged others may be,
 * and a blob that is put again must not be taken for stored. No other thread may use the
 * repository meanwhile. */
int repo_drop_doubted(struct repo *repo, struct cairn_err *err);

/* True when packs are known to be missing: from repo_confirm_packs(), or because a
 * repair recorded them in the index. */
bool repo_has_lost_packs(struct repo *repo);

#endif
