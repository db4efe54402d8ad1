/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/pod_volumes.h"

#include <string.h>

#include "kube/object.h"
#include "velero/velero_names.h"

static bool volume_copied(const json_t *pod, const char *volume, bool all)
{
	const char *list = kube_annotation(pod, all ? VELERO_ANNOTATION_VOLUMES_EXCLUDED
						    : VELERO_ANNOTATION_VOLUMES);

	return (list && velero_list_has(list, volume)) != all;
}

static bool pod_copies(const json_t *pod, const char *claim, bool all)
{
	size_t i;
	json_t *volume;

	json_array_foreach(kube_at(pod, "spec", "volumes"), i, volume)
	{
		const char *of = kube_str(volume, "persistentVolumeClaim", "claimName");
		const char *name = kube_str(volume, "name");

		if (of && name && strcmp(of, claim) == 0 && volume_copied(pod, name, all))
			return true;
	}
	return false;
}

bool velero_claim_copied_as_files(const json_t *pods, const char *claim, bool all)
{
	size_t i;
	json_t *pod;

	json_array_foreach(kube_at(pods, "items"), i,
			   pod) if (pod_copies(pod, claim, all)) return true;
	return false;
}
