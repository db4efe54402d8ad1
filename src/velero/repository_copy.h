/* SPDX-License-Identifier: Apache-2.0 */

/* Copies of the volume snapshotter's snapshots in the repository.
 *
 * The data mover of `cairn manager --velero` makes and restores them, as it moves the snapshots of
 * Velero's own actions: by a DataUpload or DataDownload, which the plugin writes and waits for.
 * The snapshot stays in the storage (VELERO_KEEP_SNAPSHOT).
 */
#ifndef CAIRN_VELERO_REPOSITORY_COPY_H
#define CAIRN_VELERO_REPOSITORY_COPY_H

#include <jansson.h>
#include <stdint.h>

#include "velero/moved_backup.h"

struct cairn_err;
struct kube_client;
struct velero_progress;
struct velero_snapshotter;

/* One copy, in either direction. */
struct velero_copy {
	const struct velero_snapshotter *s;
	struct kube_client *client;
	const char *name; /* of the request */
	struct velero_progress *progress;
};

/* What is copied. */
struct velero_copy_source {
	const json_t *backup;   /* the Backup */
	const json_t *snapshot; /* the VolumeSnapshot */
	const json_t *claim;
};

/* A request of that name that an interrupted call made is used. If it fails, the request is
 * deleted, and all that was made for it.
 *
 * CAIRN_PRECONDITION  the Backup has no location, or the copy failed
 * CAIRN_DEADLINE      no data mover takes the request within ten minutes
 */
int velero_copy_to_repository(const struct velero_copy *copy,
			      const struct velero_copy_source *source, struct velero_moved *ret,
			      struct cairn_err *err);

/* Restores to the claim of the request's name in Velero's namespace, which waits for a volume
 * with the label VELERO_LABEL_RESTORED; `restore` is the Restore that is running. The request is
 * deleted afterwards. Codes as above.
 */
int velero_copy_from_repository(const struct velero_copy *copy, const json_t *restore,
				const struct velero_moved *moved, uint64_t bytes,
				struct cairn_err *err);

#endif
