/* SPDX-License-Identifier: Apache-2.0 */

/* One pass of a prune: complete in itself, but it leaves packs that are to be rewritten and for which
 * there is no space. */
#ifndef CAIRN_REPO_PRUNE_PASS_H
#define CAIRN_REPO_PRUNE_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "repo/prune.h"

struct repo_names;

struct repo_prune_how {
	bool is_first; /* later ones load the index again */
	uint64_t room; /* for packs that are written anew, at most; 0: none are */
	/* Gets the packs that were in the store before; the caller's. NULL: not wanted. */
	struct repo_names *ret_packs;
};

/* Codes of repo_prune(). *ret is set in any case; after an error it is what was planned.
 *
 * CAIRN_NO_SPACE  the store had less space than it said; nothing was lost
 */
int repo_prune_pass(struct repo *repo, const struct repo_prune_options *options,
		    const struct repo_prune_how *how, struct repo_prune_stats *ret,
		    struct cairn_err *err);

#endif
