/* SPDX-License-Identifier: Apache-2.0 */

/* Snapshots of claims that belong together: a VolumeGroupSnapshot of all claims of a namespace
 * that carry the same value of Velero's group label.
 *
 * The first claim of a group that Velero backs up creates the VolumeGroupSnapshot, whose name
 * follows from the Backup, the namespace and the group; the others find it. It stays as long as
 * the backup: the storage deletes the snapshots of a group only together. All policies are Retain,
 * so that a deleted namespace does not take its backup along. Each content has the handles of the
 * whole group in an annotation, which is in the backup too: any cluster can delete the group.
 */
#ifndef CAIRN_VELERO_GROUP_SNAPSHOT_H
#define CAIRN_VELERO_GROUP_SNAPSHOT_H

#include <jansson.h>
#include <stdbool.h>

#include "kube/kube_resource.h"

struct cairn_err;
struct kube_call;
struct kube_client;
struct velero_csi_snapshot;
struct velero_request;

/* On a VolumeSnapshotContent: JSON, the handle of the group, then those of its snapshots. */
#define VELERO_ANNOTATION_GROUP "cairn.csi.dev/group-snapshot-handles"

/* The claim's group in this Backup, borrowed; NULL: it has none. *ret_key is the label's key. */
const char *velero_group_of(const json_t *claim, const json_t *backup, const char **ret_key);

/* The other claims of the claim's group, an array that the caller owns. The claim must be of one. */
int velero_group_others(struct kube_client *client, const json_t *claim, const json_t *backup,
			const struct kube_call *how, json_t **ret, struct cairn_err *err);

/* Takes the snapshot of the claim's group, or finds it, and waits for that of the claim, as
 * velero_csi_snapshot_make() does.
 *
 * CAIRN_PRECONDITION  the driver has no VolumeGroupSnapshotClass, or several and nothing says which;
 *                     claims of the group have volumes of other drivers, or none
 * CAIRN_DEADLINE      not within spec.csiSnapshotTimeout of the Backup
 */
int velero_group_snapshot_make(const struct velero_request *request, const json_t *pv,
			       struct velero_csi_snapshot *ret, struct cairn_err *err);

/* The kinds of groupsnapshot.storage.k8s.io in the newest version that the server has. */
struct velero_group_kinds {
	struct kube_resource snapshots, contents, classes;
};

/* *ret_classes are the VolumeGroupSnapshotClasses; the caller's.
 *
 * CAIRN_NOT_FOUND  the server does not have the kinds
 */
int velero_group_kinds(struct kube_client *client, const struct kube_call *how,
		       struct velero_group_kinds *ret, json_t **ret_classes, struct cairn_err *err);

/* Pure: the class for the driver, borrowed from the list: that of the claim's annotation
 * velero.io/csi-volume-group-snapshot-class, of the Backup's
 * velero.io/csi-volumegroupsnapshot-class_DRIVER, the one with the label
 * velero.io/csi-volumegroupsnapshot-class, or the driver's only one. Codes as above. */
int velero_group_class_choose(const json_t *classes, const char *driver, const json_t *claim,
			      const json_t *backup, const json_t **ret, struct cairn_err *err);

/* Is the content of this VolumeGroupSnapshot? A status may name the content of another one, whose
 * handles must not get into this backup: they are deleted with it. */
bool velero_group_content_of(const json_t *content, const json_t *made);

/* Does the content belong to a group of ours? */
bool velero_group_has(const json_t *content);

/* Deletes the group of the content from the storage, with all objects of it that are in this
 * cluster. Succeeds when it is gone already. */
int velero_group_discard(struct kube_client *client, const json_t *content, const char *ns,
			 const struct kube_call *how, struct cairn_err *err);

#endif
