/* SPDX-License-Identifier: Apache-2.0 */

/* The VolumeSnapshot of a claim in a backup, from its creation to the point at which the
 * application may go on writing. */
#ifndef CAIRN_VELERO_CSI_SNAPSHOT_H
#define CAIRN_VELERO_CSI_SNAPSHOT_H

#include <jansson.h>

struct cairn_err;
struct velero_request;

/* Both are the caller's. */
struct velero_csi_snapshot {
	json_t *snapshot;
	json_t *content;
};

void velero_csi_snapshot_done(struct velero_csi_snapshot *snapshot);

/* Makes a VolumeSnapshot of the request's claim for its Backup, waits until it has a creation
 * time and its content a handle (not until it is ready to use), gives the content the label of
 * the backup and makes it outlive the VolumeSnapshot: whoever deletes the namespace must not
 * delete the backup. On failure nothing of it is left.
 *
 * CAIRN_DEADLINE  no handle within spec.csiSnapshotTimeout of the Backup
 */
int velero_csi_snapshot_make(const struct velero_request *request, const char *class_name,
			     struct velero_csi_snapshot *ret, struct cairn_err *err);

/* The VolumeSnapshot that is sent to the API server: labelled with the backup, and owned by the
 * Backup if both are in one namespace. Kubernetes deletes objects whose owner is in another
 * namespace; those are deleted with the Backup by our DeleteItemAction instead. *ret is the
 * caller's. */
int velero_csi_snapshot_object(const json_t *claim, const json_t *backup, const char *class_name,
			       json_t **ret, struct cairn_err *err);

/* Adds the Backup as an owner that does not hold up deletion. */
int velero_own_by_backup(json_t *object, const char *name, const char *uid, struct cairn_err *err);

#endif
