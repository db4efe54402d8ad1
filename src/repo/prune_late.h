/* SPDX-License-Identifier: Apache-2.0 */

/* Detects snapshots that another process saves during a prune.
 *
 * The exclusive lock forbids it. But a writer whose lock was removed, because a clock is
 * wrong or a user removed it, may be about to save a snapshot of blobs that the prune
 * deletes, and may be killed before it notices. So a prune lists snapshots again before
 * it deletes anything, and once more at its end.
 */
#ifndef CAIRN_REPO_PRUNE_LATE_H
#define CAIRN_REPO_PRUNE_LATE_H

#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_names;
struct repo_snapshot_list;

/* The names of the listed snapshots, sorted. Release with repo_names_done(). */
int repo_prune_names_of(const struct repo_snapshot_list *list, struct repo_names *ret,
			struct cairn_err *err);

/* CAIRN_ABORTED  there is a snapshot that is not in `known` */
int repo_prune_refuse_late(struct repo *repo, const struct repo_names *known,
			   struct cairn_err *err);

/* A blob in no index may still be in a pack that no index names, or that a repair recorded as lost:
 * then nothing is known to be missing. `why` is what is missing.
 *
 * CAIRN_DATA_LOSS  there is such a pack
 */
int repo_prune_refuse_strays(struct repo *repo, const struct repo_names *packs, const char *why,
			     struct cairn_err *err);

/* Loads the index again; also on failure the one in memory is gone. */
int repo_prune_renew_index(struct repo *repo, struct cairn_err *err);

/* After the deletion: removes the snapshots that are not in `known` and need data that is gone;
 * complete ones stay. If there are any, it loads the index again.
 *
 * Data is gone only if a blob is in no index, or only in packs that the store says it does
 * not have, and if every pack of the store is in the index. A snapshot, tree, index file or pack
 * that is damaged or cannot be read is an error that names the snapshot; this stays.
 *
 * CAIRN_DATA_LOSS  one of them is damaged, and stays; the others were judged
 * CAIRN_ABORTED    the prune's own lock was lost; the snapshots stay
 */
int repo_prune_remove_late(struct repo *repo, const struct repo_names *known, uint64_t *ret_removed,
			   struct cairn_err *err);

#endif
