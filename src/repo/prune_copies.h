/* SPDX-License-Identifier: Apache-2.0 */

/* Chooses which copy of a blob that is stored more than once a prune keeps. */
#ifndef CAIRN_REPO_PRUNE_COPIES_H
#define CAIRN_REPO_PRUNE_COPIES_H

struct cairn_err;
struct repo;
struct repo_walk;

/* Reads the marked copy of every used blob that has several, and moves the mark to
 * the first intact one. Blobs that are stored once are not read.
 *
 * CAIRN_DATA_LOSS  every copy of a blob is damaged
 */
int repo_prune_choose_copies(struct repo *repo, struct repo_walk *walk, struct cairn_err *err);

#endif
