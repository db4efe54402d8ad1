/* SPDX-License-Identifier: Apache-2.0 */

/* What the index names and the store has not.
 *
 * An index file outlives the packs it names when a pack is lost or cut short: by a
 * disk, an `rm`, a lifecycle rule of a bucket. A backup that believes the index then
 * builds on what is not there. So whoever adds to a repository compares the index
 * with the store's listing first. The listing must be taken after the index was
 * loaded: a pack is stored before an index file names it, so a pack that is named and
 * not listed is gone.
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

/* What each pack of the index must have as its size; *ret is the caller's. */
int repo_pack_sizes(struct repo_index *index, uint64_t **ret, struct cairn_err *err);

/* A listing without packs is an error where the index names some: of the two, the
 * listing is the one to doubt.
 *
 * CAIRN_DATA_LOSS  it is so
 */
int repo_listing_check(struct repo_index *index, const struct repo_names *packs,
		       struct cairn_err *err);

/* Lists the packs; what the index says of packs that are gone or cut short is not
 * found any more, and is stored again when it is put. One listing: a request for
 * every 1000 packs on S3, one on a REST server. The index must be loaded. *ret_gone is
 * how many packs are gone.
 *
 * CAIRN_DATA_LOSS  the listing is empty, the index is not
 * CAIRN_ABORTED    something is missing because somebody else deleted it under an
 *                  early lock (repo_settle())
 */
int repo_confirm_packs(struct repo *repo, uint64_t *ret_gone, struct cairn_err *err);

/* A blob of the pack could not be opened. From any number of threads. */
void repo_doubt_pack(struct repo *repo, const struct repo_id *pack);

/* Packs that are doubted count as gone from here on: where one blob is damaged others may
 * be, and what is put again must not be taken for stored. Nobody else may use the
 * repository meanwhile. */
int repo_drop_doubted(struct repo *repo, struct cairn_err *err);

/* True when packs are known to be gone: by repo_confirm_packs(), or because a repair
 * found it and put it into the index. */
bool repo_has_lost_packs(struct repo *repo);

#endif
