/* SPDX-License-Identifier: Apache-2.0 */

/* Velero's volume policies: the first policy whose conditions all hold for a volume says
 * what becomes of it. Pure.
 *
 * Conditions of Velero 1.18 for a volume that a claim is bound to: capacity, storageClass,
 * csi, nfs, volumeTypes, pvcLabels, pvcPhase, pvcVolumeMode and pvcAccessModes. A condition
 * that is not known is an error: to guess could mean a volume without a backup.
 */
#ifndef CAIRN_VELERO_VOLUME_POLICY_H
#define CAIRN_VELERO_VOLUME_POLICY_H

#include <jansson.h>

struct cairn_err;

enum velero_policy_action {
	VELERO_POLICY_NONE, /* no policy matches */
	VELERO_POLICY_SKIP,
	VELERO_POLICY_FS_BACKUP,
	VELERO_POLICY_SNAPSHOT,
	VELERO_POLICY_CUSTOM,
};

/* `config_map` holds one text of YAML; `pv` is a volume of CSI that `pvc` is bound to.
 *
 * CAIRN_INVALID   the policies are not what Velero takes
 * CAIRN_NO_SPACE  out of memory
 */
int velero_policy_match(const json_t *config_map, const json_t *pv, const json_t *pvc,
			enum velero_policy_action *ret, struct cairn_err *err);

#endif
