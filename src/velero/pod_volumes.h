/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes that Velero copies as files, because pods that mount them say so. Pure. */
#ifndef CAIRN_VELERO_POD_VOLUMES_H
#define CAIRN_VELERO_POD_VOLUMES_H

#include <jansson.h>
#include <stdbool.h>

/* Does one of these pods have the claim as a volume that is copied as files? By default only
 * volumes that backup.velero.io/backup-volumes names are; with `all` every volume but those in
 * backup.velero.io/backup-volumes-excludes. */
bool velero_claim_copied_as_files(const json_t *pods, const char *claim, bool all);

#endif
