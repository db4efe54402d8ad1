/* SPDX-License-Identifier: Apache-2.0 */

/* The volume snapshotter: snapshots of PersistentVolumes of any CSI driver, through
 * VolumeSnapshots of their claims.
 *
 * A volume's id is its CSI handle, its type the name of its StorageClass. Nothing is kept
 * between calls: a VolumeSnapshot of an interrupted call is found by its name, which follows
 * from the Backup and the volume, and by its labels. What other interrupted calls leave is
 * labelled VELERO_LABEL_ROLE, and removed by `cairn manager --velero`.
 */
#ifndef CAIRN_VELERO_SNAPSHOTTER_H
#define CAIRN_VELERO_SNAPSHOTTER_H

#include <jansson.h>
#include <stddef.h>

#include "kube/kube_client.h"
#include "velero/snapshot_id.h"

struct cairn_err;
struct velero_world;

/* Label of a volume that was made from a snapshot and waits for SetVolumeID: hex digits of
 * SHA-256 of its handle. */
#define VELERO_LABEL_HANDLE "cairn.csi.dev/volume-handle"

struct velero_snapshotter {
	struct velero_world *world;
	struct kube_call how; /* ends with the call from Velero */
};

struct velero_pair {
	const char *key, *value;
};

/* Reads the configuration of a VolumeSnapshotLocation. A process serves one Backup at a time, and
 * a Backup has one location of each provider: the process keeps it.
 *
 * CAIRN_INVALID  a setting that there is not, or a value that it cannot have
 */
int velero_snapshotter_init(struct velero_world *world, const struct velero_pair *config, size_t n,
			    struct cairn_err *err);

/* The CSI handle, borrowed; "" for a volume that cannot have snapshots, which Velero then leaves
 * out: it is not one of CSI, or its driver has no VolumeSnapshotClass. */
int velero_snapshotter_volume_id(const struct velero_snapshotter *s, const json_t *pv,
				 const char **ret, struct cairn_err *err);

/* The StorageClass of the volume with that handle; *ret is the caller's, free() it.
 *
 * CAIRN_NOT_FOUND  no PersistentVolume has the handle
 */
int velero_snapshotter_volume_type(const struct velero_snapshotter *s, const char *volume_id,
				   char **ret, struct cairn_err *err);

/* `tags` are those of Velero.
 *
 * CAIRN_INVALID       the tags name no backup or no volume
 * CAIRN_PRECONDITION  the volume has no claim, or is not that volume
 * CAIRN_EXISTS        the claim has a snapshot of another kind in this backup
 * CAIRN_DEADLINE      no handle within spec.csiSnapshotTimeout of the Backup
 */
int velero_snapshotter_create(const struct velero_snapshotter *s, const char *volume_id,
			      const char *zone, const struct velero_pair *tags, size_t n_tags,
			      char ret[VELERO_SNAPSHOT_ID_MAX], struct cairn_err *err);

/* A new volume with the data of the snapshot; *ret is its handle, free() it. Its
 * PersistentVolume waits, with the label VELERO_LABEL_HANDLE, for SetVolumeID.
 *
 * CAIRN_INVALID       not an id of ours
 * CAIRN_PRECONDITION  no StorageClass of the driver
 * CAIRN_NOT_FOUND     the storage snapshot is gone
 * CAIRN_DEADLINE      no volume within ten minutes
 */
int velero_snapshotter_restore(const struct velero_snapshotter *s, const char *snapshot_id,
			       const char *volume_type, const char *zone, char **ret,
			       struct cairn_err *err);

/* Deletes the progress objects of the snapshot, then the snapshot, also when no object in this
 * cluster names it. */
int velero_snapshotter_delete(const struct velero_snapshotter *s, const char *snapshot_id,
			      struct cairn_err *err);

/* Makes `pv` the volume with that handle: changes it in place. */
int velero_snapshotter_set_volume(const struct velero_snapshotter *s, json_t *pv,
				  const char *volume_id, struct cairn_err *err);

/* Value of VELERO_LABEL_HANDLE. */
#define VELERO_HANDLE_LABEL_MAX 64
int velero_handle_label(const char *handle, char out[VELERO_HANDLE_LABEL_MAX],
			struct cairn_err *err);

#endif
