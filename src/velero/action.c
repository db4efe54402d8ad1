/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/action.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "velero/velero_names.h"

#define SNAPSHOTS "volumesnapshots.snapshot.storage.k8s.io"
#define CONTENTS  "volumesnapshotcontents.snapshot.storage.k8s.io"

const struct velero_action velero_actions[] = {
	{VELERO_BACKUP, VELERO_ACTION_PVC, "persistentvolumeclaims", NULL, velero_claim_backup},
	{VELERO_BACKUP, VELERO_ACTION_VS, SNAPSHOTS, VELERO_LABEL_BACKUP, velero_snapshot_backup},
	{VELERO_BACKUP, VELERO_ACTION_VSC, CONTENTS, VELERO_LABEL_BACKUP, velero_content_backup},
	{VELERO_RESTORE, VELERO_ACTION_PVC, "persistentvolumeclaims", VELERO_LABEL_SNAPSHOT,
	 velero_claim_restore},
	{VELERO_RESTORE, VELERO_ACTION_VS, SNAPSHOTS, VELERO_LABEL_BACKUP, velero_snapshot_restore},
	{VELERO_RESTORE, VELERO_ACTION_VSC, CONTENTS, VELERO_LABEL_BACKUP, velero_content_restore},
	{VELERO_RESTORE, VELERO_ACTION_PV, "persistentvolumes", NULL, velero_volume_restore},
	{VELERO_DELETE, VELERO_ACTION_VSC, CONTENTS, VELERO_LABEL_BACKUP, velero_content_delete},
	{VELERO_DELETE, VELERO_ACTION_UPLOAD, "datauploads.velero.io", NULL, velero_upload_delete},
	{VELERO_BLOCK, VELERO_ACTION_PVC, "persistentvolumeclaims", NULL, NULL},
};
const size_t velero_actions_n = sizeof(velero_actions) / sizeof(velero_actions[0]);

const struct velero_action *velero_action_find(enum velero_kind kind, const char *name)
{
	for (size_t i = 0; i < velero_actions_n; i++)
		if (velero_actions[i].kind == kind && strcmp(velero_actions[i].name, name) == 0)
			return &velero_actions[i];
	return NULL;
}

int velero_outcome_relate(struct velero_outcome *outcome, const struct kube_resource *resource,
			  const char *ns, const char *name, struct cairn_err *err)
{
	struct velero_related *at = &outcome->related[outcome->n_related];

	if (outcome->n_related == VELERO_RELATED_MAX)
		return cairn_err_set(err, CAIRN_INTERNAL, "too many related items");
	if (!name || !*name || strlen(name) >= sizeof(at->name) ||
	    (ns && strlen(ns) >= sizeof(at->ns)))
		return cairn_err_set(err, CAIRN_INVALID, "'%.*s' is not the name of a %s",
				     VELERO_NAME_MAX, name ? name : "", resource->kind);
	at->resource = resource;
	snprintf(at->ns, sizeof(at->ns), "%s", ns ? ns : "");
	snprintf(at->name, sizeof(at->name), "%s", name);
	outcome->n_related++;
	return 0;
}
