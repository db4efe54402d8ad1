/* SPDX-License-Identifier: Apache-2.0 */

/* csi-snapshots.json.gz: the VolumeSnapshots that item actions took in a backup, an array of
 * whole objects. The storage's handle and the driver, which their contents have, are added as
 * the annotations that Velero's own actions use, so that the file says all without a cluster.
 * Pure. */
#ifndef CAIRN_VELERO_CSI_RECORDS_H
#define CAIRN_VELERO_CSI_RECORDS_H

#include <jansson.h>

struct cairn_err;

#define VELERO_ANNOTATION_HANDLE "velero.io/csi-volumesnapshot-handle"
#define VELERO_ANNOTATION_DRIVER "velero.io/csi-driver-name"

/* Of the lists of VolumeSnapshots and VolumeSnapshotContents with the label of the backup. Left
 * out are those of restores and of the volume snapshotter. *ret is the caller's. */
int velero_csi_records(const json_t *snapshots, const json_t *contents, json_t **ret,
		       struct cairn_err *err);

#endif
