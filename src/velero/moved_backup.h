/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes that our data mover moved, and the request to forget one: a ConfigMap in Velero's
 * namespace. The plugin makes it when a Backup is deleted, the data mover after an upload that did
 * not complete, whose Job may have stored a backup nevertheless; the data mover's controller
 * processes both. Pure.
 */
#ifndef CAIRN_VELERO_MOVED_BACKUP_H
#define CAIRN_VELERO_MOVED_BACKUP_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;

#define VELERO_MOVER_NAME "cairn" /* spec.datamover */
/* Key of spec.dataMoverConfig with the value "true": the snapshot stays. */
#define VELERO_KEEP_SNAPSHOT    "keepSnapshot"
#define VELERO_LABEL_FORGET     "cairn.csi.dev/forget"
#define VELERO_FORGET_LOCATION  "backupStorageLocation"
#define VELERO_FORGET_NAMESPACE "sourceNamespace"
#define VELERO_FORGET_BACKUP    "snapshotID"
#define VELERO_FORGET_UPLOAD    "dataUploadUID" /* instead: whatever that DataUpload stored */
/* Tag of a backup: the DataUpload that it was made for. */
#define VELERO_UPLOAD_TAG "velero-upload"

/* True for a DataUpload or DataDownload whose spec.datamover is ours. */
bool velero_is_moved_by_us(const json_t *object);

/* A name as Kubernetes allows it for namespaces: lower-case letters, digits and '-', at most
 * 63. Accepts NULL. */
bool velero_is_namespace(const char *text);

/* A name as Kubernetes allows it for objects. Accepts NULL. */
bool velero_is_object_name(const char *text);

/* The id of a backup in a repository: 64 hex digits. Accepts NULL. */
bool velero_is_backup_id(const char *text);

/* Where a moved volume is: "NAMESPACE,LOCATION,ID", as an annotation of the content of a snapshot
 * that was also copied to the repository, and in the id of that snapshot. */
#define VELERO_ANNOTATION_MOVED "cairn.csi.dev/moved"
#define VELERO_MOVED_TEXT_MAX   400
struct velero_moved {
	char ns[64]; /* "": not moved */
	char location[254];
	char backup_id[65];
};

/* CAIRN_INVALID  not such a text */
int velero_moved_parse(const char *text, struct velero_moved *ret, struct cairn_err *err);
void velero_moved_format(const struct velero_moved *moved, char out[VELERO_MOVED_TEXT_MAX]);

/* Texts are borrowed from the object. */
#define VELERO_FORGET_WORD_MAX 96
struct velero_forget {
	const char *location;
	const char *ns;                    /* whose repository it is */
	char word[VELERO_FORGET_WORD_MAX]; /* for `cairn backup forget`: an id, or --tagged=TAG */
};

/* CAIRN_INVALID  a key is missing or malformed */
int velero_forget_view(const json_t *object, struct velero_forget *ret, struct cairn_err *err);

/* The ConfigMap for a DataUpload, as a backup holds it; *ret is NULL if it has no moved data of
 * ours, or those of another Backup, else owned by the caller. `location` is the Backup's. */
int velero_forget_object(const json_t *upload, const json_t *backup, const char *location,
			 json_t **ret, struct cairn_err *err);

/* The same for one backup whose place is known. */
int velero_forget_backup(const char *velero_ns, const struct velero_moved *moved, json_t **ret,
			 struct cairn_err *err);

/* The ConfigMap for all that a DataUpload stored; *ret is the caller's. */
int velero_forget_upload(const json_t *upload, json_t **ret, struct cairn_err *err);

#endif
