/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/backup_rules.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "kube/object.h"
#include "velero/action.h"
#include "velero/pod_volumes.h"
#include "velero/velero_names.h"
#include "velero/volume_policy.h"

bool velero_backup_is_final(const json_t *backup)
{
	const char *phase = kube_str(backup, "status", "phase");

	return phase && (strcmp(phase, "Finalizing") == 0 ||
			 strcmp(phase, "FinalizingPartiallyFailed") == 0);
}

int velero_is_of_backup(const json_t *item, const char *backup_name, bool *ret,
			struct cairn_err *err)
{
	const char *label = kube_label(item, VELERO_LABEL_BACKUP);
	char value[VELERO_LABEL_VALUE_MAX];
	int rc = velero_label_value(backup_name, value, err);

	if (!rc)
		*ret = label && strcmp(label, value) == 0;
	return rc;
}

static bool is_false(const json_t *object, const char *field)
{
	bool value = true;

	return kube_bool(object, &value, "spec", field) && !value;
}

static bool is_bound(const json_t *claim)
{
	const char *phase = kube_str(claim, "status", "phase");
	const char *volume = kube_str(claim, "spec", "volumeName");

	return phase && strcmp(phase, "Bound") == 0 && volume && *volume;
}

/* Loads the policy of one ConfigMap; `name` may be NULL. */
static int match_config_map(const struct velero_request *request, struct kube_client *client,
			    const char *name, const json_t *pv, enum velero_policy_action *ret,
			    struct cairn_err *err)
{
	kube_auto_json json_t *config_map = NULL;
	int rc;

	if (!name || !*name)
		return 0;
	rc = kube_get(client, KUBE_REF(&kube_configmaps, kube_namespace(request->owner), name),
		      &request->how, &config_map, err);
	if (rc)
		return cairn_err_wrap(err, "volume policies");
	return velero_policy_match(config_map, pv, request->item, ret, err);
}

static const char *own_policy(const json_t *backup)
{
	const char *kind = kube_str(backup, "spec", "resourcePolicy", "kind");

	return kind && strcasecmp(kind, "configmap") == 0
		       ? kube_str(backup, "spec", "resourcePolicy", "name")
		       : NULL;
}

static const char *global_policy(const json_t *backup)
{
	return kube_annotation(backup, VELERO_ANNOTATION_GLOBAL_POLICY);
}

/* The backup's own policy takes precedence over the one for all backups. */
static int match_policies(const struct velero_request *request, struct kube_client *client,
			  const json_t *pv, enum velero_policy_action *ret, struct cairn_err *err)
{
	enum velero_policy_action action = VELERO_POLICY_NONE;
	int rc = match_config_map(request, client, own_policy(request->owner), pv, &action, err);

	if (!rc && action == VELERO_POLICY_NONE)
		rc = match_config_map(request, client, global_policy(request->owner), pv, &action,
				      err);
	if (!rc)
		*ret = action;
	return rc;
}

/* Finds out whether pods have the claim copied as files. */
static int copied_as_files(const struct velero_request *request, struct kube_client *client,
			   bool *ret, struct cairn_err *err)
{
	bool all = kube_is(request->owner, "spec", "defaultVolumesToFsBackup") ||
		   kube_is(request->owner, "spec", "defaultVolumesToRestic");
	kube_auto_json json_t *pods = NULL;
	int rc = kube_list(client, KUBE_REF(&kube_pods, kube_namespace(request->item), NULL), NULL,
			   &request->how, &pods, err);

	if (rc)
		return cairn_err_wrap(err, "pods of namespace %s", kube_namespace(request->item));
	*ret = velero_claim_copied_as_files(pods, kube_name(request->item), all);
	return 0;
}

/* Finds out whether the volume is left to this plugin. */
static int backup_rules_is_ours(const struct velero_request *request, struct kube_client *client,
				const json_t *pv, bool *ret, struct cairn_err *err)
{
	enum velero_policy_action action;
	bool copied = false;
	int rc = match_policies(request, client, pv, &action, err);

	if (rc)
		return rc;
	if (request->world->csi_enabled) {
		*ret = action == VELERO_POLICY_CUSTOM;
		return 0;
	}
	if (action == VELERO_POLICY_NONE)
		rc = copied_as_files(request, client, &copied, err);
	if (!rc)
		*ret = action == VELERO_POLICY_NONE
			       ? !copied
			       : action == VELERO_POLICY_SNAPSHOT || action == VELERO_POLICY_CUSTOM;
	return rc;
}

/* True if the item and the Backup alone rule out a snapshot. */
static bool is_out_of_question(const struct velero_request *request)
{
	if (velero_backup_is_final(request->owner) || !is_bound(request->item) ||
	    is_false(request->owner, "snapshotVolumes"))
		return true;
	if (!request->world->csi_enabled)
		return false;
	return kube_annotation(request->item, VELERO_ANNOTATION_SNAPSHOT) ||
	       (!own_policy(request->owner) && !global_policy(request->owner));
}

int velero_wants_snapshot(const struct velero_request *request, json_t **ret_pv,
			  struct cairn_err *err)
{
	const char *name = kube_str(request->item, "spec", "volumeName");
	kube_auto_json json_t *pv = NULL;
	struct kube_client *client;
	bool ours = false;
	int rc;

	*ret_pv = NULL;
	if (is_out_of_question(request))
		return 0;
	rc = velero_world_client(request->world, &client, err);
	if (!rc)
		rc = kube_get(client, KUBE_REF(&kube_persistentvolumes, NULL, name), &request->how,
			      &pv, err);
	if (rc)
		return cairn_err_wrap(err, "volume '%s'", name);
	if (!kube_str(pv, "spec", "csi", "driver"))
		return 0;
	rc = backup_rules_is_ours(request, client, pv, &ours, err);
	if (rc || !ours)
		return rc;
	/* The data shall be moved, so a snapshot that stays in the storage is not enough. */
	if (kube_is(request->owner, "spec", "snapshotMoveData"))
		return cairn_err_set(
			err, CAIRN_UNIMPLEMENTED,
			"snapshotMoveData is not supported for volumes whose snapshots "
			"are taken by " VELERO_ACTION_PVC);
	*ret_pv = cairn_take(pv);
	return 0;
}
