/* SPDX-License-Identifier: Apache-2.0 */

/* Files of a backup in its object store: backups/NAME/…, most of them gzip of one JSON value.
 *
 * A bucket may be written by others: sizes are limited before and after decompression. */
#ifndef CAIRN_VELERO_BACKUP_FILES_H
#define CAIRN_VELERO_BACKUP_FILES_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;
struct repo_store;

#define VELERO_FILE_GZIP_MAX (64U << 20)
#define VELERO_FILE_TEXT_MAX (256U << 20)

/* Names of files; one that begins with '-' follows the name of the backup. */
#define VELERO_FILE_METADATA   "velero-backup.json"
#define VELERO_FILE_VOLUMES    "-volumesnapshots.json.gz"
#define VELERO_FILE_RESOURCES  "-resource-list.json.gz"
#define VELERO_FILE_INFO       "-volumeinfo.json.gz"
#define VELERO_FILE_OPERATIONS "-itemoperations.json.gz"
/* The VolumeSnapshots of a backup, an array; written by the manager. */
#define VELERO_FILE_CSI "csi-snapshots.json.gz"

#define VELERO_FILE_KEY_MAX 1024

/* "backups/NAME/FILE". CAIRN_INVALID  the name cannot be part of a key */
int velero_file_key(const char *backup, const char *file, char out[VELERO_FILE_KEY_MAX],
		    struct cairn_err *err);

/* *ret is the caller's.
 *
 * CAIRN_NOT_FOUND  there is no such file
 * CAIRN_DATA_LOSS  it is not what it should be
 * CAIRN_RANGE      it is too large
 */
int velero_file_read(struct repo_store *store, const char *backup, const char *file, json_t **ret,
		     struct cairn_err *err);

int velero_file_write(struct repo_store *store, const char *backup, const char *file,
		      const json_t *value, struct cairn_err *err);

int velero_file_remove(struct repo_store *store, const char *backup, const char *file,
		       struct cairn_err *err);

/* Is the backup in the store? Velero writes this file first and removes it last. */
int velero_file_has_backup(struct repo_store *store, const char *backup, bool *ret,
			   struct cairn_err *err);

#endif
