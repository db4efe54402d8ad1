/* SPDX-License-Identifier: Apache-2.0 */

/* Labels, annotations and derived names of Velero. Pure. */
#ifndef CAIRN_VELERO_NAMES_H
#define CAIRN_VELERO_NAMES_H

#include <stdbool.h>

#include "kube/kube_resource.h"

struct cairn_err;

/* Of our actions. Velero skips actions whose name contains "velero.io/csi-" while its CSI
 * feature is off, which is when ours are needed. */
#define VELERO_ACTION_PVC    "cairn.csi.dev/csi-pvc"
#define VELERO_ACTION_VS     "cairn.csi.dev/csi-vs"
#define VELERO_ACTION_VSC    "cairn.csi.dev/csi-vsc"
#define VELERO_ACTION_PV     "cairn.csi.dev/csi-pv"
#define VELERO_ACTION_UPLOAD "cairn.csi.dev/dataupload"

#define VELERO_LABEL_BACKUP        "velero.io/backup-name"
#define VELERO_LABEL_BACKUP_UID    "velero.io/backup-uid"
#define VELERO_LABEL_RESTORE       "velero.io/restore-name"
#define VELERO_LABEL_SNAPSHOT      "velero.io/volume-snapshot-name"
#define VELERO_LABEL_CLASS         "velero.io/csi-volumesnapshot-class"
#define VELERO_LABEL_GROUP_DEFAULT "velero.io/volume-group"
#define VELERO_LABEL_PV            "velero.io/pv-name"
#define VELERO_LABEL_VOLUME        "velero.io/volume-name"
#define VELERO_LABEL_SNAPSHOT_ID   "velero.io/snapshot-id"
#define VELERO_LABEL_PROVIDER      "velero.io/provider"
#define VELERO_LABEL_RESTORED      "velero.io/dynamic-pv-restore" /* selects a restored volume */

/* On everything that the plugin makes: which part of it did. The manager removes what an
 * interrupted call left. */
#define VELERO_LABEL_ROLE       "cairn.csi.dev/velero"
#define VELERO_ROLE_ACTION      "item-action"
#define VELERO_ROLE_SNAPSHOTTER "snapshotter"
#define VELERO_ROLE_RESTORE     "restore"
#define VELERO_ROLE_DELETE      "delete"

/* The volume snapshotter, which is also the provider of VolumeSnapshotLocations. */
#define VELERO_SNAPSHOTTER "cairn.csi.dev/snapshotter"

/* Set by Velero's own CSI action on a claim that it has taken a snapshot of. */
#define VELERO_ANNOTATION_SNAPSHOT "velero.io/volume-snapshot-name"
/* Additional items are stored although the backup's filters exclude them. */
#define VELERO_ANNOTATION_INCLUDE "backup.velero.io/must-include-additional-items"
/* Of a pod: volumes that are copied as files, and those that are not. */
#define VELERO_ANNOTATION_VOLUMES          "backup.velero.io/backup-volumes"
#define VELERO_ANNOTATION_VOLUMES_EXCLUDED "backup.velero.io/backup-volumes-excludes"
#define VELERO_ANNOTATION_GLOBAL_POLICY    "velero.io/global-backup-volume-policy-configmap"

/* On a restored VolumeSnapshot: the claim, by its name in the backup. */
#define VELERO_ANNOTATION_CLAIM "cairn.csi.dev/claim-name"

/* On a VolumeSnapshot: the BackupStorageLocation of its Backup. */
#define VELERO_ANNOTATION_LOCATION "cairn.csi.dev/storage-location"

/* On a VolumeSnapshot and its content: the namespace of the Velero server. A cluster may have
 * several, and each may have a Backup and a location of that name. */
#define VELERO_ANNOTATION_SERVER "cairn.csi.dev/velero-namespace"

/* Of a VolumeSnapshotContent: the Secret with which the driver deletes the snapshot. */
#define VELERO_ANNOTATION_SECRET     "snapshot.storage.kubernetes.io/deletion-secret-name"
#define VELERO_ANNOTATION_SECRET_NS  "snapshot.storage.kubernetes.io/deletion-secret-namespace"
#define VELERO_ANNOTATION_IS_DEFAULT "snapshot.storage.kubernetes.io/is-default-class"

extern const struct kube_resource velero_backups;
extern const struct kube_resource velero_restores;
extern const struct kube_resource velero_data_uploads;
extern const struct kube_resource velero_data_downloads;
extern const struct kube_resource velero_snapshot_locations;
extern const struct kube_resource velero_volume_backups;  /* VolumePluginBackup */
extern const struct kube_resource velero_volume_restores; /* VolumePluginRestore */

#define VELERO_LABEL_VALUE_MAX 64

/* The value of a label for a name that may be longer than 63 bytes: longer ones are cut to
 * 57 and get the first six hex digits of their SHA-256. */
int velero_label_value(const char *name, char out[VELERO_LABEL_VALUE_MAX], struct cairn_err *err);

/* The same for any text: characters that a label must not have are replaced, and such a text
 * always gets the digits, so that two texts do not become one. */
int velero_label_of_text(const char *text, char out[VELERO_LABEL_VALUE_MAX], struct cairn_err *err);

/* "label=value" for a list; `value` as it is. */
#define VELERO_SELECTOR_MAX 160
const char *velero_selector(const char *label, const char *value, char out[VELERO_SELECTOR_MAX]);

#define VELERO_RESTORED_NAME_MAX 65

/* What a VolumeSnapshot and its content are called after a restore: hex digits of
 * SHA-256("RESTORE-UID/NAME"), as Velero's own actions do it, so that every restore has its own
 * pair. */
int velero_restored_name(const char *restore_uid, const char *name,
			 char out[VELERO_RESTORED_NAME_MAX], struct cairn_err *err);

/* Is `word` one of the parts of a list with commas? */
bool velero_list_has(const char *list, const char *word);

#endif
