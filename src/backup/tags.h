/* SPDX-License-Identifier: Apache-2.0 */

/* Tags that users give to backups, compatible with restic.
 *
 * A snapshot's tags also hold Cairn's own records of a backup (record.h); users cannot set
 * those. When selecting backups, "a,b" matches those that have both tags, and several such
 * lists match backups that match any of them.
 */
#ifndef CAIRN_BACKUP_TAGS_H
#define CAIRN_BACKUP_TAGS_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_err;
struct cairn_strings;
struct repo_snapshot;

#define TAGS_MAX 256U /* of one backup */

/* Tags for a new backup. */
struct tags {
	char *at[TAGS_MAX];
	size_t n;
};

/* Parses lists "a,b"; duplicate tags count once.
 *
 * CAIRN_INVALID  one is empty, not printable, or could be one of Cairn's own
 */
int backup_tag_list_parse(const struct cairn_strings *lists, struct tags *ret,
			  struct cairn_err *err);
void backup_tag_list_done(struct tags *tags);

/* True if the snapshot matches one of the lists, or there are none. */
bool backup_tag_list_match(const struct repo_snapshot *snapshot, const struct cairn_strings *lists);

/* "a,b": the user's tags of a snapshot; owned by the caller, NULL when memory is short. */
char *backup_tag_list_text(const struct repo_snapshot *snapshot);

#endif
