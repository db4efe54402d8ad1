/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes that our data mover moved, and the request to forget one: a ConfigMap in Velero's
 * namespace, which the plugin makes when a Backup is deleted and the data mover's controller
 * processes. Pure.
 */
#ifndef CAIRN_VELERO_MOVED_BACKUP_H
#define CAIRN_VELERO_MOVED_BACKUP_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;

#define VELERO_MOVER_NAME       "cairn" /* spec.datamover */
#define VELERO_LABEL_FORGET     "cairn.csi.dev/forget"
#define VELERO_FORGET_LOCATION  "backupStorageLocation"
#define VELERO_FORGET_NAMESPACE "sourceNamespace"
#define VELERO_FORGET_BACKUP    "snapshotID"

/* True for a DataUpload or DataDownload whose spec.datamover is ours. */
bool velero_is_moved_by_us(const json_t *object);

/* A name as Kubernetes allows it for namespaces: lower-case letters, digits and '-', at most
 * 63. Accepts NULL. */
bool velero_is_namespace(const char *text);

/* The id of a backup in a repository: 64 hex digits. Accepts NULL. */
bool velero_is_backup_id(const char *text);

/* Texts are borrowed from the object. */
struct velero_forget {
	const char *location;
	const char *ns; /* whose repository it is */
	const char *backup_id;
};

/* CAIRN_INVALID  a key is missing or malformed */
int velero_forget_view(const json_t *object, struct velero_forget *ret, struct cairn_err *err);

/* The ConfigMap for a DataUpload, as a backup holds it; *ret is NULL if it has no moved data of
 * ours, or those of another Backup, else owned by the caller. `location` is the Backup's. */
int velero_forget_object(const json_t *upload, const json_t *backup, const char *location,
			 json_t **ret, struct cairn_err *err);

#endif
