/* SPDX-License-Identifier: Apache-2.0 */

/* Whether a claim gets a CSI snapshot of ours in a backup. */
#ifndef CAIRN_VELERO_BACKUP_RULES_H
#define CAIRN_VELERO_BACKUP_RULES_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;
struct velero_request;

/* True in the last phases of a backup, in which Velero runs the actions again. */
bool velero_backup_is_final(const json_t *backup);

/* Of an item that a backup made: does it carry the label of `backup_name`? */
int velero_is_of_backup(const json_t *item, const char *backup_name, bool *ret,
			struct cairn_err *err);

/* No snapshot is taken where
 *   - the claim is not bound, or its volume is not one of CSI;
 *   - the Backup says snapshotVolumes: false;
 *   - a volume policy says otherwise; or
 *   - Velero copies the volume as files, because of an annotation of a pod.
 * Where Velero's own CSI actions are on, a snapshot is ours only if a volume policy says
 * "custom": then Velero leaves the volume to others. So no volume gets two.
 *
 * *ret_pv is the volume if a snapshot is to be taken, else NULL; the caller's.
 *
 * CAIRN_UNIMPLEMENTED  the Backup wants the data moved to the object store
 * CAIRN_INVALID        bad volume policies
 * CAIRN_NOT_FOUND      the volume, or the ConfigMap with policies, does not exist
 */
int velero_wants_snapshot(const struct velero_request *request, json_t **ret_pv,
			  struct cairn_err *err);

#endif
