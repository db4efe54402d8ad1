/* SPDX-License-Identifier: Apache-2.0 */

/* Removes packs from the index when there is no space for a second index. */
#ifndef CAIRN_REPO_PRUNE_THIN_H
#define CAIRN_REPO_PRUNE_THIN_H

#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_names;
struct repo_prune_plan;

/* Replaces, one after the other, each index file that names a pack which the plan does
 * not keep: at any time every kept pack is in an index. If there is no space for a new file,
 * the old one stays, and the plan keeps the packs that it names; *ret_kept is their number. */
int repo_prune_thin(struct repo *repo, struct repo_prune_plan *plan, const struct repo_names *files,
		    uint64_t *ret_kept, struct cairn_err *err);

#endif
