/* SPDX-License-Identifier: Apache-2.0 */

/* Recovers the blobs of damaged packs that no index file names.
 *
 * Where an index file is lost, the headers of packs have its contents. A pack whose bytes do not
 * hash to its name is not adopted (repo_adopt_packs()), because a backup must not build on it. But
 * one flipped bit damages one blob: a repair opens each blob of the pack, stores those again whose
 * own hash is right, and records the others as lost, with their sizes, so that a check reports the
 * exact ranges and the next backup can cut the same chunks.
 *
 * The order is: new packs and their index, the index of lost blobs, then the damaged packs are
 * deleted. After a crash at any point the next repair completes the work.
 */
#ifndef CAIRN_REPO_SALVAGE_H
#define CAIRN_REPO_SALVAGE_H

struct cairn_err;
struct repo;
struct repo_repair_stats;

/* Needs the exclusive lock and all index files in memory. Adds to the members `packs`,
 * `packs_damaged`, `packs_unreadable`, `blobs_saved` and `blobs_lost` of *stats.
 *
 * A pack whose header is damaged stays in the store: nothing in it can be identified.
 */
int repo_salvage_packs(struct repo *repo, struct repo_repair_stats *stats, struct cairn_err *err);

#endif
