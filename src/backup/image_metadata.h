/* SPDX-License-Identifier: Apache-2.0 */

/* The small file next to a volume's image that describes its origin.
 *
 * JSON, described in cairn-backup(5). It repeats the contents of the tags, so
 * that changing tags loses no backup, and adds data that a listing does not
 * need: the chunk sizes, the position of merging, and Kubernetes objects.
 */
#ifndef CAIRN_BACKUP_METADATA_H
#define CAIRN_BACKUP_METADATA_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;

#define METADATA_VERSION 1
#define METADATA_MAX     (4U << 20) /* bytes: objects of Kubernetes are small */

/* When written, strings belong to the caller; parsed metadata owns them. Unset
 * fields are NULL or 0. */
struct metadata {
	const char *volume_id;
	const char *volume_name;
	const char *snapshot_id;
	const char *snapshot_name;
	uint64_t snapshot_time_ns;
	uint64_t size;
	uint64_t granularity;
	const char *mode;
	const char *parent_backup;      /* 64 hex digits */
	const char *parent_snapshot_id; /* snapshot against which the change list was computed */
	uint64_t bytes_changed;
	uint64_t chunk_base;
	uint64_t chunk_leaf;
	uint64_t merge_hand;
	uint64_t segment; /* the length of one; 0: the image is one file */
	uint64_t chunk_n; /* chunks of data, and their bytes; only with segments */
	uint64_t data_bytes;
	const char *kubernetes; /* JSON text */
	void *owned;
};

/* The file's bytes; owned by the caller.
 *
 * CAIRN_INVALID  the Kubernetes objects are not JSON
 * CAIRN_RANGE    it would be larger than METADATA_MAX
 */
int backup_metadata_write(const struct metadata *metadata, char **ret, size_t *ret_n,
			  struct cairn_err *err);

/* CAIRN_DATA_LOSS      not such a file
 * CAIRN_UNIMPLEMENTED  a newer version wrote it
 */
int backup_metadata_parse(const char *text, size_t n, struct metadata *ret, struct cairn_err *err);

/* Frees the strings of backup_metadata_parse(). Also a cleanup function. */
void backup_metadata_done(struct metadata *metadata);

#endif
