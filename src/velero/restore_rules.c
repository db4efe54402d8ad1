/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/restore_rules.h"

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/object.h"
#include "velero/backup_rules.h"

const char *velero_restore_namespace(const json_t *restore, const char *ns)
{
	const char *to = kube_str(restore, "spec", "namespaceMapping", ns);

	return to && *to ? to : ns;
}

bool velero_restores_volumes(const json_t *restore)
{
	bool value = true;

	(void)kube_bool(restore, &value, "spec", "restorePVs");
	return value;
}

int velero_is_of_restore(const json_t *item, const json_t *restore, bool *ret,
			 struct cairn_err *err)
{
	const char *backup = kube_str(restore, "spec", "backupName");

	if (!backup || !*backup)
		return cairn_err_set(err, CAIRN_INVALID, "Restore %s names no backup",
				     kube_name(restore));
	return velero_is_of_backup(item, backup, ret, err);
}

int velero_clear_metadata(json_t *object, struct cairn_err *err)
{
	json_t *labels = kube_at(object, "metadata", "labels");
	kube_auto_json json_t *metadata =
		json_pack("{s:s, s:O*}", "name", kube_name(object), "labels", labels);
	const char *ns = kube_namespace(object);

	if (!metadata || (*ns && json_object_set_new(metadata, "namespace", json_string(ns))))
		return cairn_err_nomem(err, "metadata");
	return kube_set(object, err, cairn_take(metadata), "metadata");
}
