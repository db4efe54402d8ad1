/* SPDX-License-Identifier: Apache-2.0 */

/* Progress objects in <backup>-volumesnapshots.json.gz.
 *
 * Velero keeps an array there, an element {spec, status} for each volume that a volume
 * snapshotter took a snapshot of. The fields of the VolumePluginBackup are added to the element
 * of its volume, so that any Velero still reads the array: it ignores fields that it does not
 * know. An element with metadata.name is a progress object; one without is of a backup that had
 * none. Pure. */
#ifndef CAIRN_VELERO_VOLUME_RECORDS_H
#define CAIRN_VELERO_VOLUME_RECORDS_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;

/* Stops at an array that somebody else wrote. */
#define VELERO_RECORDS_MAX 10000

/* Adds the progress objects of `list` to the elements of their volumes. Fields of Velero keep
 * their values. *ret_changed: the array is another one than before.
 *
 * CAIRN_DATA_LOSS  not such an array
 */
int velero_records_merge(json_t *array, const json_t *list, bool *ret_changed,
			 struct cairn_err *err);

/* The progress objects of the array, for `backup` in namespace `ns`: their labels are those of
 * this cluster's Backup, which owns them. *ret is an array, the caller's. */
int velero_records_objects(const json_t *array, const json_t *backup, const char *ns, json_t **ret,
			   struct cairn_err *err);

#endif
