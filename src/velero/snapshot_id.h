/* SPDX-License-Identifier: Apache-2.0 */

/* The id of a snapshot that the volume snapshotter gives to Velero: all that another cluster
 * needs to find it.
 *
 *     DRIVER_BYTES_MODE_HANDLE       MODE is F (Filesystem) or B (Block)
 *     DRIVER_BYTES_MODE,NAMESPACE,LOCATION,ID_HANDLE
 *
 * The second form is of a snapshot that was also copied to the repository (struct velero_moved).
 * Where the driver's handle allows it, the id is also the value of a label. Pure. */
#ifndef CAIRN_VELERO_SNAPSHOT_ID_H
#define CAIRN_VELERO_SNAPSHOT_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "velero/moved_backup.h"

struct cairn_err;

#define VELERO_SNAPSHOT_ID_MAX 1024
#define VELERO_DRIVER_NAME_MAX 64

struct velero_snapshot_id {
	char driver[VELERO_DRIVER_NAME_MAX];
	uint64_t bytes; /* 0: unknown */
	bool block;
	struct velero_moved moved; /* the copy; without a namespace: there is none */
	const char *handle;        /* borrowed */
};

/* CAIRN_INVALID  the driver or the handle cannot be part of an id */
int velero_snapshot_id_format(const struct velero_snapshot_id *id, char out[VELERO_SNAPSHOT_ID_MAX],
			      struct cairn_err *err);

/* The handle is borrowed from `text`. CAIRN_INVALID  not such an id */
int velero_snapshot_id_parse(const char *text, struct velero_snapshot_id *ret,
			     struct cairn_err *err);

#endif
