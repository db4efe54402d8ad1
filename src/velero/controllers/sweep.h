/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of this directory: the steps of the sweep. Each returns the first error, and
 * has left alone what it could not decide. */
#ifndef CAIRN_VELERO_SWEEP_H
#define CAIRN_VELERO_SWEEP_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct kube_call;
struct velero_common;

/* A VolumeSnapshot with its content, which is NULL where it has none. */
struct velero_swept {
	const json_t *snapshot, *content;
};

/* The object whose labels say what it is for: the content if a plugin has kept it for a backup,
 * because users of the namespace can write to the VolumeSnapshot. Borrowed. */
const json_t *velero_swept_told(const struct velero_swept *what);

/* *ret is the Backup of the label, the caller's; NULL: there is none. *ret_may: the object is of a
 * backup that has ended, or does not exist.
 *
 * CAIRN_UNAVAILABLE  what is known of Backups is not up to date
 */
int velero_sweep_backup(const struct velero_common *common, const json_t *object, json_t **ret,
			bool *ret_may, struct cairn_err *err);

/* An error of a store is an error. */
int velero_sweep_is_needed(const struct velero_common *common, const struct velero_swept *what,
			   const struct kube_call *how, bool *ret, struct cairn_err *err);

/* VolumeSnapshots, older than VELERO_SWEEP_AGE_MS, of backups that have ended without them: the
 * backup is not in its store, or its files do not name them. Of a Backup that does not exist,
 * they go when no store has the backup, among them the store that the Backup named: Velero
 * creates a Backup again that is in a store. */
int velero_sweep_snapshots(const struct velero_common *common, const struct kube_call *how,
			   struct cairn_err *err);

/* VolumeGroupSnapshots, older than VELERO_SWEEP_AGE_MS, that no claim of a backup has kept. */
int velero_sweep_groups(const struct velero_common *common, const struct kube_call *how,
			struct cairn_err *err);

/* Claims, imported snapshots and volumes of interrupted CreateVolumeFromSnapshot and
 * DeleteSnapshot calls, older than VELERO_SWEEP_AGE_MS and than all Restores that run. */
int velero_sweep_restores(const struct velero_common *common, const struct kube_call *how,
			  struct cairn_err *err);

/* Progress objects: those whose Backup or Restore has ended fail, those whose Restore is gone
 * are deleted. */
int velero_sweep_progress(const struct velero_common *common, const struct kube_call *how,
			  struct cairn_err *err);

/* Longer than any call of the plugin that copies no data, unless the period is shorter: for tests. */
#define VELERO_SWEEP_AGE_MS 1800000U

/* Pure: was the object created at least that long ago? False without a creation time. */
bool velero_sweep_is_old(const json_t *object, uint64_t now_ns, uint64_t period_ms);

#endif
