/* SPDX-License-Identifier: Apache-2.0 */

/* A VolumeSnapshotContent for a storage snapshot that is known by its handle only, bound to a
 * VolumeSnapshot of the same name. Pure. */
#ifndef CAIRN_VELERO_STATIC_CONTENT_H
#define CAIRN_VELERO_STATIC_CONTENT_H

#include <jansson.h>

struct cairn_err;
struct velero_snapshot_id;

struct velero_static_content {
	const struct velero_snapshot_id *id;
	const char *ns; /* of the VolumeSnapshot */
	const char *name;
	const char *role;   /* value of VELERO_LABEL_ROLE */
	const char *policy; /* "Retain" or "Delete" */
	/* VolumeSnapshotClasses; a class of the driver names the secrets. NULL: none */
	const json_t *classes;
};

/* *ret is the caller's. */
int velero_static_content_object(const struct velero_static_content *wanted, json_t **ret,
				 struct cairn_err *err);
int velero_static_snapshot_object(const struct velero_static_content *wanted, json_t **ret,
				  struct cairn_err *err);

#endif
