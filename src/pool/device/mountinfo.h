/* SPDX-License-Identifier: Apache-2.0 */

/* The text of /proc/PID/mountinfo, line by line.
 *
 * Pure: text in, entries out. The text is modified in place (fields are split
 * and \ooo escapes decoded), so nothing is allocated and entries borrow from
 * it. A user who may mount can put any bytes but NUL into a mount point or a
 * source, so lines are untrusted: one that does not have the documented form is
 * skipped and never misread as another.
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
	const char *root;        /* the part of the filesystem that is mounted */
	const char *mount_point; /* as seen from the reader's root directory */
	bool read_only;          /* this mount; others of the filesystem may not be */
	bool stopped;            /* the filesystem shut down after errors and accepts no writes */
	const char *fs_type;
	const char *source; /* often a device, but may be any text */
};

/* Parses the next well-formed line at *cursor (NUL-terminated text) and
 * advances the cursor past it. False at the end of the text. */
bool pool_mountinfo_next(char **cursor, struct mountinfo_entry *ret);

#endif
