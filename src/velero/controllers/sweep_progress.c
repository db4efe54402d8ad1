/* SPDX-License-Identifier: Apache-2.0 */

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/backup_phase.h"
#include "velero/controller.h"
#include "velero/controllers/sweep.h"
#include "velero/progress.h"
#include "velero/velero_names.h"

static int fail_progress(const struct velero_common *common, const struct kube_resource *resource,
			 const json_t *object, const struct kube_call *how, struct cairn_err *err)
{
	kube_auto_json json_t *patch = NULL;
	int64_t total = 0, done = 0;
	int rc;

	(void)kube_i64(object, &total, "status", "progress", "TotalBytes");
	(void)kube_i64(object, &done, "status", "progress", "BytesDone");
	rc = velero_progress_end_patch(resource, NULL, "the plugin was interrupted", cairn_now_ns(),
				       done > 0 ? (uint64_t)done : 0,
				       total > 0 ? (uint64_t)total : 0, &patch, err);
	if (!rc)
		rc = kube_patch(common->client, KUBE_REF(resource, common->ns, kube_name(object)),
				KUBE_PATCH_MERGE, patch, how, NULL, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int sweep_backups(const struct velero_common *common, const struct kube_call *how,
			 struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *object;
	int rc = kube_list(common->client, KUBE_REF(&velero_volume_backups, common->ns, NULL), NULL,
			   how, &list, err);

	if (rc)
		return rc == CAIRN_NOT_FOUND || rc == CAIRN_DENIED ? 0 : rc;
	json_array_foreach(kube_at(list, "items"), i, object)
	{
		const char *name = kube_str(object, "spec", "backupName");
		kube_auto_json json_t *backup = NULL;

		if (rc || !name ||
		    !cairn_text_same(kube_str(object, "status", "phase"), "InProgress"))
			continue;
		backup = kube_informer_get(common->backups, common->ns, name);
		if (backup && velero_backup_has_ended(backup))
			rc = fail_progress(common, &velero_volume_backups, object, how, err);
	}
	return rc;
}

/* The Restore that owns the object; *ret is NULL when there is none, else the caller's. */
static int restore_of(const struct velero_common *common, const json_t *object,
		      const struct kube_call *how, json_t **ret, struct cairn_err *err)
{
	const json_t *owner = json_array_get(kube_at(object, "metadata", "ownerReferences"), 0);
	const char *name = kube_str(owner, "name");
	int rc;

	if (!name)
		return 0;
	rc = kube_get(common->client, KUBE_REF(&velero_restores, common->ns, name), how, ret, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int sweep_restore(const struct velero_common *common, const json_t *object,
			 const struct kube_call *how, struct cairn_err *err)
{
	kube_auto_json json_t *restore = NULL;
	const char *phase = kube_str(object, "status", "phase");
	int rc = restore_of(common, object, how, &restore, err);

	if (rc)
		return rc;
	if (!restore) {
		if (!velero_sweep_is_old(object, cairn_now_ns(), common->period_ms))
			return 0;
		rc = kube_delete(common->client,
				 KUBE_REF(&velero_volume_restores, common->ns, kube_name(object)),
				 NULL, how, NULL, err);
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	}
	return velero_backup_has_ended(restore) && cairn_text_same(phase, "InProgress")
		       ? fail_progress(common, &velero_volume_restores, object, how, err)
		       : 0;
}

int velero_sweep_progress(const struct velero_common *common, const struct kube_call *how,
			  struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *object;
	int rc = sweep_backups(common, how, err);

	if (!rc)
		rc = kube_list(common->client, KUBE_REF(&velero_volume_restores, common->ns, NULL),
			       NULL, how, &list, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND || rc == CAIRN_DENIED ? 0 : rc;
	json_array_foreach(kube_at(list, "items"), i, object)
	{
		if (!rc)
			rc = sweep_restore(common, object, how, err);
	}
	return rc;
}
