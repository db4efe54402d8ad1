/* SPDX-License-Identifier: Apache-2.0 */

/* The text of /proc/PID/mountinfo, line by line.
 *
 * Pure: text in, entries out. The text is changed in place (fields are cut and
 * \ooo escapes decoded), so nothing is allocated and an entry borrows from it.
 * Anybody who may mount can put any bytes but NUL into a mount point or a
 * source, so lines are taken as hostile: one that does not have the documented
 * form is passed over and never misread as another.
 */
#ifndef CAIRN_POOL_MOUNTINFO_H
#define CAIRN_POOL_MOUNTINFO_H

#include <stdbool.h>
#include <stdint.h>

#define MOUNTINFO_TEXT_MAX (16U << 20) /* about 100 000 mounts */

struct mountinfo_entry {
	uint64_t id;
	uint64_t parent_id;
	uint32_t major; /* of the superblock; btrfs has an anonymous one here */
	uint32_t minor;
	const char *root;        /* what of the filesystem is mounted */
	const char *mount_point; /* as seen from the reader's root directory */
	bool read_only;          /* this mount; others of the filesystem may not be */
	bool stopped;            /* the filesystem takes no writes any more, after errors */
	const char *fs_type;
	const char *source; /* often a device, but any text may stand here */
};

/* Takes the next well-formed line at *cursor (NUL-terminated text) and moves
 * the cursor behind it. False at the end of the text. */
bool mountinfo_next(char **cursor, struct mountinfo_entry *ret);

#endif
