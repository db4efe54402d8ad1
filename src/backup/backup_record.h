/* SPDX-License-Identifier: Apache-2.0 */

/* The backup that a repository's snapshot describes.
 *
 * The origin of a backup and its cost are in the snapshot's tags, because a
 * listing should not have to read trees and because restic keeps tags but drops
 * unknown fields. Snapshots of other programs are records too, without that
 * data: they can also be listed, restored and copied.
 */
#ifndef CAIRN_BACKUP_RECORD_H
#define CAIRN_BACKUP_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct repo_snapshot;

/* The names in a backup's directory. */
#define BACKUP_IMAGE_NAME    "volume.img"
#define BACKUP_METADATA_NAME "volume.json"
#define BACKUP_PARTS_NAME    "volume.parts" /* instead of the image: segment.h */

enum backup_mode {
	BACKUP_CHANGED,   /* the changes against the parent were read */
	BACKUP_ALLOCATED, /* the allocated blocks were read */
	BACKUP_FULL,      /* everything was read */
};
#define BACKUP_MODES 3

/* "changed", "allocated", "full" */
const char *backup_mode_name(enum backup_mode mode);

/* Strings belong to the snapshot; "" if unknown. */
struct backup_record {
	bool ours; /* has the tag "cairn" */
	const char *volume;
	const char *volume_id;
	const char *pool_dir; /* the directory of that pool */
	const char *pool_id;  /* of the pool that held the volume; "" also for older backups */
	const char *snapshot;
	const char *snapshot_id;
	const char *mode;
	const char *path; /* the directory: "/data" */
	uint64_t size;
	uint64_t bytes_read;
	uint64_t bytes_stored;
};

struct backup_record backup_record_of(const struct repo_snapshot *snapshot);

/* True for a file or device of a host, whose id is "HOST:NAME" (source_file.h). A volume of
 * the same name is a different object. */
bool backup_record_is_file(const struct backup_record *record);

/* True if the id of the backup's pool begins with `pool`, which is not empty, or if `pool` is the
 * absolute path of its directory: copied pools have one id. */
bool backup_record_is_of_pool(const struct backup_record *record, const char *pool);

/* True for tags that Cairn sets; the others are the user's. */
bool backup_tag_is_own(const char *tag, size_t n);

/* The tags of a backup: names and values; freed with backup_tags_done(). */
#define BACKUP_TAGS 9
struct backup_tags {
	char *at[BACKUP_TAGS];
	size_t n; /* two less without a pool */
};

int backup_tags_make(const struct backup_record *record, struct backup_tags *ret,
		     struct cairn_err *err);
void backup_tags_done(struct backup_tags *tags);

/* The directory of a volume as a path: its name, in which '/', '%' and invalid
 * names are escaped. Owned by the caller; NULL when memory is short. */
char *backup_path_of(const char *volume_name);

#endif
