/* SPDX-License-Identifier: Apache-2.0 */

/* Phases of a Backup, and of a Restore. Pure. */
#ifndef CAIRN_VELERO_BACKUP_PHASE_H
#define CAIRN_VELERO_BACKUP_PHASE_H

#include <jansson.h>
#include <stdbool.h>

/* Velero writes nothing more: Completed, PartiallyFailed, Failed or FailedValidation. */
bool velero_backup_has_ended(const json_t *backup);

/* It is being deleted. */
bool velero_backup_is_going(const json_t *backup);

#endif
