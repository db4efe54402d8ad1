/* SPDX-License-Identifier: Apache-2.0 */

/* Files that nobody can delete for some time (S3's object lock).
 *
 * New files are protected when they are stored (repo_store_options.lock_days). A new backup also
 * refers to old ones: their protection must be renewed, or the newest backup could be
 * destroyed through the oldest pack. Packs, index files, keys and the config are renewed when
 * less than half of the time is left. What each file has left is remembered beside the cache
 * of the index; a file that is not in there, such as one of a prune or of another machine, is
 * renewed at once. Snapshots of old backups are not renewed: they can be forgotten when their time
 * is over.
 */
#ifndef CAIRN_REPO_PROTECT_H
#define CAIRN_REPO_PROTECT_H

#include <stdint.h>

struct cairn_err;
struct repo;

#define REPO_PROTECT_DAYS_MAX 3650U /* it cannot be taken back: a slip must not be for ever */

struct repo_protection {
	uint64_t files; /* that were renewed, or looked at */
	uint64_t open;  /* of those looked at: not protected */
	int64_t until;  /* the first that ends, in seconds since 1970; 0: there is none */
};

/* After a backup was stored: lists the files, and renews those that are due. */
int repo_protect(struct repo *repo, uint64_t days, struct repo_protection *ret,
		 struct cairn_err *err);

/* Looks at every file but locks: one request for each. */
int repo_protection_survey(struct repo *repo, struct repo_protection *ret, struct cairn_err *err);

#endif
