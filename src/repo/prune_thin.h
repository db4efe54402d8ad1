/* SPDX-License-Identifier: Apache-2.0 */

/* Taking packs out of the index where there is no room for a second one. */
#ifndef CAIRN_REPO_PRUNE_THIN_H
#define CAIRN_REPO_PRUNE_THIN_H

struct cairn_err;
struct repo;
struct repo_names;
struct repo_prune_plan;

/* Replaces each of the index files that names a pack which the plan does not keep, one
 * after the other: at any time every pack that stays is in an index. */
int repo_prune_thin(struct repo *repo, const struct repo_prune_plan *plan,
		    const struct repo_names *files, struct cairn_err *err);

#endif
