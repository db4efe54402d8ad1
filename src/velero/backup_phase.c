/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/backup_phase.h"

#include <stddef.h>
#include <string.h>

#include "kube/object.h"

bool velero_backup_has_ended(const json_t *backup)
{
	static const char *const ended[] = {"Completed", "PartiallyFailed", "Failed",
					    "FailedValidation"};
	const char *phase = kube_str(backup, "status", "phase");

	for (size_t i = 0; phase && i < sizeof(ended) / sizeof(ended[0]); i++)
		if (strcmp(phase, ended[i]) == 0)
			return !kube_is_deleted(backup);
	return false;
}

bool velero_backup_is_going(const json_t *backup)
{
	const char *phase = kube_str(backup, "status", "phase");

	return kube_is_deleted(backup) || (phase && strcmp(phase, "Deleting") == 0);
}
