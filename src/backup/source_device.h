/* SPDX-License-Identifier: Apache-2.0 */

/* A snapshot in a cluster: a block device (or file) made from it, and the
 * SnapshotMetadata service that reports its allocated and changed blocks. It
 * runs where the device is, such as in a pod with a Block-mode claim made from
 * the snapshot, and works with any CSI driver.
 */
#ifndef CAIRN_BACKUP_SOURCE_DEVICE_H
#define CAIRN_BACKUP_SOURCE_DEVICE_H

#include <stdbool.h>

#include <cairn/client.h>

#include "backup/progress.h"

struct backup_source;
struct cairn_err;

struct source_device_spec {
	const char *device;
	const char *namespace_name; /* of the VolumeSnapshot */
	const char *snapshot;       /* its name */

	/* The driver's ids of volume and snapshot, and the name under which the
	 * backup is recorded; looked up in Kubernetes if NULL. */
	const char *volume_id;
	const char *snapshot_id;
	const char *volume_name; /* default: NAMESPACE/CLAIM */
	const char *objects;     /* JSON of more objects to keep with the backup, or NULL */

	struct cairn_client_options client; /* how the service is reached */
	struct backup_progress progress;
};

/* CAIRN_NOT_FOUND     no such device or VolumeSnapshot
 * CAIRN_INVALID       neither a device nor a file, or the objects are not JSON
 * CAIRN_UNAVAILABLE   the VolumeSnapshot is not ready
 * CAIRN_PRECONDITION  backup_device_filesystem()
 */
int backup_source_device(const struct source_device_spec *spec, struct backup_source **ret,
			 struct cairn_err *err);

#endif
