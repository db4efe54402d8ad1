/* SPDX-License-Identifier: Apache-2.0 */

/* The VolumeSnapshot of a claim in a backup, from its creation to the point at which the
 * application may go on writing. */
#ifndef CAIRN_VELERO_CSI_SNAPSHOT_H
#define CAIRN_VELERO_CSI_SNAPSHOT_H

#include <jansson.h>
#include <stdint.h>

struct cairn_err;
struct velero_request;

/* Both are the caller's. */
struct velero_csi_snapshot {
	json_t *snapshot;
	json_t *content;
};

void velero_csi_snapshot_done(struct velero_csi_snapshot *snapshot);

/* What VolumeSnapshot is wanted. */
struct velero_snapshot_wish {
	const char *class_name;
	const char *role;   /* value of VELERO_LABEL_ROLE */
	const char *name;   /* NULL: chosen by the API server */
	const char *volume; /* value of VELERO_LABEL_PV; NULL: not labelled */
};

/* Makes a VolumeSnapshot of the request's claim for its Backup, waits until it has a creation
 * time and its content a handle (not until it is ready to use), gives the content the label of
 * the backup and makes it outlive the VolumeSnapshot: deleting the namespace must not
 * delete the backup. On failure nothing of it is left. With a name that the wish gives, a
 * VolumeSnapshot that an interrupted call made is used.
 *
 * CAIRN_DEADLINE  no handle within spec.csiSnapshotTimeout of the Backup
 */
int velero_csi_snapshot_make(const struct velero_request *request,
			     const struct velero_snapshot_wish *wish,
			     struct velero_csi_snapshot *ret, struct cairn_err *err);

/* Waits for a VolumeSnapshot that exists, and labels and keeps its content, as above. Nothing is
 * deleted on failure. */
int velero_csi_snapshot_finish(const struct velero_request *request, const json_t *snapshot,
			       struct velero_csi_snapshot *ret, struct cairn_err *err);

/* When spec.csiSnapshotTimeout of the Backup, from now on, is over: monotonic. */
uint64_t velero_snapshot_deadline(const json_t *backup);

/* The VolumeSnapshot that is sent to the API server: labelled with the backup, and owned by the
 * Backup if both are in one namespace. Kubernetes deletes objects whose owner is in another
 * namespace; those are deleted with the Backup by our DeleteItemAction instead. *ret is the
 * caller's. */
int velero_csi_snapshot_object(const json_t *claim, const json_t *backup,
			       const struct velero_snapshot_wish *wish, json_t **ret,
			       struct cairn_err *err);

/* The name of the VolumeSnapshot that the volume snapshotter takes of a volume in a backup: it
 * follows from both, so that an interrupted call finds its own. */
#define VELERO_SNAPSHOTTER_NAME_MAX 48
int velero_snapshotter_name(const json_t *backup, const char *volume,
			    char out[VELERO_SNAPSHOTTER_NAME_MAX], struct cairn_err *err);

/* Adds the Backup as an owner that does not hold up deletion. */
int velero_own_by_backup(json_t *object, const char *name, const char *uid, struct cairn_err *err);

#endif
