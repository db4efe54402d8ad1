/* SPDX-License-Identifier: Apache-2.0 */

/* Progress objects: VolumePluginBackup and VolumePluginRestore, one for each volume that the
 * volume snapshotter works on.
 *
 * They inform users and nothing depends on them: a cluster without these kinds, or an account
 * without the right, gets one line in the log of a process and no objects. An object is created
 * before the work begins, updated at most once a second, and at the end.
 *
 * The fields are those of both approaches of the design: persistentVolumeName and volume,
 * backupName and backup, providerSnapshotID and snapshotID say the same thing twice.
 */
#ifndef CAIRN_VELERO_PROGRESS_H
#define CAIRN_VELERO_PROGRESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "kube/kube_client.h"

struct cairn_err;
struct velero_world;

#define VELERO_PROGRESS_NAME_MAX 254

struct velero_progress {
	struct velero_world *world;
	const struct kube_resource *resource; /* NULL: nothing is written */
	char name[VELERO_PROGRESS_NAME_MAX];
	uint64_t written_ns; /* monotonic, of the last update */
	uint64_t total;
};

/* One volume of a backup. */
struct velero_volume_backup {
	const char *name; /* of the object */
	const json_t *backup;
	const char *volume;    /* name of the PersistentVolume */
	const char *volume_id; /* the storage's */
	const char *location;  /* name of the VolumeSnapshotLocation; or NULL */
	const char *provider;
	const char *volume_type;
	const char *zone; /* or NULL */
};

/* One volume of a restore. `restore` may be NULL. */
struct velero_volume_restore_info {
	const char *name;
	const json_t *restore;
	const char *backup;
	const char *snapshot_id;
	const char *provider;
	const char *volume_type;
	const char *zone; /* or NULL */
};

/* Pure: the objects as they are created, in phase InProgress; the caller's. */
int velero_volume_backup_object(const struct velero_volume_backup *info, const char *ns,
				uint64_t now_ns, uint64_t total, json_t **ret,
				struct cairn_err *err);
int velero_volume_restore_object(const struct velero_volume_restore_info *info, const char *ns,
				 uint64_t now_ns, uint64_t total, json_t **ret,
				 struct cairn_err *err);

/* Pure: the patch for the end. `failure` NULL means success; `id` is the snapshot's or the
 * volume's id, or NULL. */
int velero_progress_end_patch(const struct kube_resource *resource, const char *id,
			      const char *failure, uint64_t now_ns, uint64_t done, uint64_t total,
			      json_t **ret, struct cairn_err *err);

/* Creates the object, or resets the one of an interrupted call. Never fails: see above. */
void velero_progress_begin(struct velero_progress *progress, struct velero_world *world,
			   const struct kube_resource *resource, const json_t *object,
			   const struct kube_call *how);

/* Notes bytes that are done; writes them at most once a second. */
void velero_progress_step(struct velero_progress *progress, uint64_t done, uint64_t total,
			  const struct kube_call *how);

/* Ends it; `err` is NULL after success. */
void velero_progress_end(struct velero_progress *progress, const char *id, uint64_t total,
			 const struct cairn_err *err);

#endif
