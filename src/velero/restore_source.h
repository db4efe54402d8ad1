/* SPDX-License-Identifier: Apache-2.0 */

/* What a volume of a restore is made with: the StorageClass, the node for a class that waits
 * for one, and the Restore that is running. */
#ifndef CAIRN_VELERO_RESTORE_SOURCE_H
#define CAIRN_VELERO_RESTORE_SOURCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "velero/action.h"

struct cairn_err;
struct velero_snapshotter;

/* Owned, but `backup`. */
struct velero_restore_source {
	json_t *storage_class;
	json_t *classes; /* VolumeSnapshotClasses */
	json_t *restore; /* NULL: not known */
	char backup[VELERO_NAME_MAX];
	char node[VELERO_NAME_MAX]; /* "": the class does not wait for one */
};

void velero_restore_source_done(struct velero_restore_source *source);

/* `volume_type` is the StorageClass of the backup; another one of the driver is used where it
 * does not exist.
 *
 * CAIRN_PRECONDITION  the driver has no StorageClass, or no node for a class that waits for one
 */
int velero_restore_source_find(const struct velero_snapshotter *s, const char *driver,
			       const char *volume_type, const char *zone,
			       struct velero_restore_source *ret, struct cairn_err *err);

/* Pure: the larger of the snapshot's size for a restore and `bytes`. */
uint64_t velero_restore_size(const json_t *snapshot, uint64_t bytes);

/* Pure: a claim from VolumeSnapshot `name`; *ret is the caller's. */
int velero_restore_claim(const struct velero_restore_source *source, const char *ns,
			 const char *name, uint64_t bytes, bool block, json_t **ret,
			 struct cairn_err *err);

/* Pure: a claim that waits for a volume with the label VELERO_LABEL_RESTORED and the claim's
 * name. */
int velero_restore_empty_claim(const struct velero_restore_source *source, const char *ns,
			       const char *name, uint64_t bytes, bool block, json_t **ret,
			       struct cairn_err *err);

#endif
