/* SPDX-License-Identifier: Apache-2.0 */

/* Protects files from deletion for some time (S3's object lock).
 *
 * New files are protected when they are stored (repo_store_options.lock_days). A new backup also
 * refers to old ones: their protection must be renewed, or the newest backup could be destroyed
 * through the oldest pack. Packs, index files, keys and the config are renewed when less than half
 * of the time is left. The remaining time of each file is recorded next to the cache of the index;
 * a file without a record, such as one of a prune or of another machine, is renewed at once.
 * Snapshots of old backups are not renewed: they can be forgotten when their protection ends.
 */
#ifndef CAIRN_REPO_PROTECT_H
#define CAIRN_REPO_PROTECT_H

#include <stdint.h>

struct cairn_err;
struct repo;

#define REPO_PROTECT_DAYS_MAX 3650U /* limits a typing error: protection cannot be revoked */

struct repo_protection {
	uint64_t files; /* files renewed, or examined */
	uint64_t open;  /* of those examined: not protected */
	int64_t until;  /* earliest end of a protection, in seconds since 1970; 0: none */
};

/* Call after a backup was stored: lists the files, and renews those that are
 * due. */
int repo_protect(struct repo *repo, uint64_t days, struct repo_protection *ret,
		 struct cairn_err *err);

/* Examines every file except locks: one request for each. */
int repo_protection_survey(struct repo *repo, struct repo_protection *ret, struct cairn_err *err);

#endif
