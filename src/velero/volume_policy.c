/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/volume_policy.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/err.h"
#include "kube/object.h"
#include "kube/yaml.h"

#define QUANTITY_MAX 64

struct volume {
	const json_t *pv;
	const json_t *pvc;
};

/* A condition: returns 1 if it holds, 0 if not, or a negative code. `value` is not null. */
typedef int condition_fn(const json_t *value, const struct volume *volume, struct cairn_err *err);

static int volume_policy_wrong(struct cairn_err *err, const char *name)
{
	return cairn_err_set(err, CAIRN_INVALID, "volume policy: bad value of '%s'", name);
}

/* True if the list contains the text; an empty list contains everything. */
static int list_holds(const json_t *list, const char *text, const char *name, struct cairn_err *err)
{
	size_t i;
	json_t *entry;

	if (!json_is_array(list))
		return volume_policy_wrong(err, name);
	if (json_array_size(list) == 0)
		return 1;
	json_array_foreach(list, i,
			   entry) if (json_is_string(entry) && text &&
				      strcmp(json_string_value(entry), text) == 0) return 1;
	return 0;
}

/* True if `map` contains every pair of `wanted`. */
static int map_holds(const json_t *wanted, const json_t *map, const char *name,
		     struct cairn_err *err)
{
	const char *key;
	json_t *value;

	if (!json_is_object(wanted))
		return volume_policy_wrong(err, name);
	json_object_foreach((json_t *)(uintptr_t)wanted, key, value)
	{
		const char *has = kube_str(map, key);

		if (!json_is_string(value))
			return volume_policy_wrong(err, name);
		if (!has || strcmp(has, json_string_value(value)) != 0)
			return 0;
	}
	return 1;
}

/* Parses one end of a range; an empty one is 0. */
static bool parse_bound(const char *text, size_t n, uint64_t *ret)
{
	char quantity[QUANTITY_MAX];

	while (n > 0 && *text == ' ')
		text++, n--;
	while (n > 0 && text[n - 1] == ' ')
		n--;
	*ret = 0;
	if (n == 0)
		return true;
	if (n >= sizeof(quantity))
		return false;
	memcpy(quantity, text, n);
	quantity[n] = '\0';
	return backup_cluster_quantity(quantity, ret);
}

static int match_capacity(const json_t *value, const struct volume *volume, struct cairn_err *err)
{
	const char *text = json_string_value(value);
	const char *comma = text ? strchr(text, ',') : NULL;
	const char *has = kube_str(volume->pv, "spec", "capacity", "storage");
	uint64_t lower, upper, bytes = 0;

	if (text && !*text)
		return 1;
	if (!comma || strchr(comma + 1, ',') ||
	    !parse_bound(text, (size_t)(comma - text), &lower) ||
	    !parse_bound(comma + 1, strlen(comma + 1), &upper))
		return volume_policy_wrong(err, "capacity");
	if (has && !backup_cluster_quantity(has, &bytes))
		return cairn_err_set(err, CAIRN_INVALID,
				     "capacity '%s' of volume %s is not a quantity", has,
				     kube_name(volume->pv));
	return bytes >= lower && (upper == 0 || bytes <= upper);
}

static int match_storage_class(const json_t *value, const struct volume *volume,
			       struct cairn_err *err)
{
	return list_holds(value, kube_str(volume->pv, "spec", "storageClassName"), "storageClass",
			  err);
}

static int match_csi(const json_t *value, const struct volume *volume, struct cairn_err *err)
{
	const char *driver = kube_str(value, "driver");
	const char *has = kube_str(volume->pv, "spec", "csi", "driver");
	const json_t *attributes = kube_at(value, "volumeAttributes");

	if (!json_is_object(value))
		return volume_policy_wrong(err, "csi");
	if (!driver || !*driver)
		return has != NULL;
	if (!has || strcmp(driver, has) != 0)
		return 0;
	if (!attributes || json_is_null(attributes))
		return 1;
	return map_holds(attributes, kube_at(volume->pv, "spec", "csi", "volumeAttributes"),
			 "volumeAttributes", err);
}

/* Only CSI volumes get here, so a condition on NFS never holds. */
static int match_nfs(const json_t *value, const struct volume *volume, struct cairn_err *err)
{
	(void)volume;
	return json_is_object(value) ? 0 : volume_policy_wrong(err, "nfs");
}

static int match_volume_types(const json_t *value, const struct volume *volume,
			      struct cairn_err *err)
{
	(void)volume;
	return list_holds(value, "csi", "volumeTypes", err);
}

static int match_labels(const json_t *value, const struct volume *volume, struct cairn_err *err)
{
	return map_holds(value, kube_at(volume->pvc, "metadata", "labels"), "pvcLabels", err);
}

static int match_phase(const json_t *value, const struct volume *volume, struct cairn_err *err)
{
	return list_holds(value, kube_str(volume->pvc, "status", "phase"), "pvcPhase", err);
}

static int match_mode(const json_t *value, const struct volume *volume, struct cairn_err *err)
{
	const char *mode = kube_str(volume->pvc, "spec", "volumeMode");

	if (!json_is_string(value))
		return volume_policy_wrong(err, "pvcVolumeMode");
	return !*json_string_value(value) || (mode && strcmp(mode, json_string_value(value)) == 0);
}

/* Holds for exactly these access modes. */
static int match_access(const json_t *value, const struct volume *volume, struct cairn_err *err)
{
	const json_t *modes = kube_at(volume->pvc, "spec", "accessModes");
	size_t i;
	json_t *mode;

	if (!json_is_array(value))
		return volume_policy_wrong(err, "pvcAccessModes");
	if (json_array_size(value) == 0)
		return 1;
	if (json_array_size(modes) != json_array_size(value))
		return 0;
	json_array_foreach(modes, i, mode)
	{
		int rc = list_holds(value, json_string_value(mode), "pvcAccessModes", err);

		if (rc <= 0)
			return rc;
	}
	return 1;
}

static const struct {
	const char *name;
	condition_fn *holds;
} conditions[] = {
	{"capacity", match_capacity},
	{"storageClass", match_storage_class},
	{"csi", match_csi},
	{"nfs", match_nfs},
	{"volumeTypes", match_volume_types},
	{"pvcLabels", match_labels},
	{"pvcPhase", match_phase},
	{"pvcVolumeMode", match_mode},
	{"pvcAccessModes", match_access},
};

static condition_fn *condition_of(const char *name)
{
	for (size_t i = 0; i < sizeof(conditions) / sizeof(conditions[0]); i++)
		if (strcmp(conditions[i].name, name) == 0)
			return conditions[i].holds;
	return NULL;
}

/* Evaluates all conditions, so that an invalid policy is refused for every volume. */
static int policy_holds(const json_t *policy, const struct volume *volume, struct cairn_err *err)
{
	json_t *given = kube_at(policy, "conditions");
	const char *name;
	json_t *value;
	int all = 1;

	json_object_foreach(given, name, value)
	{
		condition_fn *holds = condition_of(name);
		int rc;

		if (!holds)
			return cairn_err_set(err, CAIRN_INVALID,
					     "volume policy: unknown condition '%s'", name);
		rc = json_is_null(value) ? 1 : holds(value, volume, err);
		if (rc < 0)
			return rc;
		all = all && rc;
	}
	return all;
}

static int action_of(const json_t *policy, enum velero_policy_action *ret, struct cairn_err *err)
{
	static const char *const names[] = {
		[VELERO_POLICY_SKIP] = "skip",
		[VELERO_POLICY_FS_BACKUP] = "fs-backup",
		[VELERO_POLICY_SNAPSHOT] = "snapshot",
		[VELERO_POLICY_CUSTOM] = "custom",
	};
	const char *type = kube_str(policy, "action", "type");

	for (size_t i = VELERO_POLICY_SKIP; type && i <= VELERO_POLICY_CUSTOM; i++)
		if (strcmp(names[i], type) == 0) {
			*ret = (enum velero_policy_action)i;
			return 0;
		}
	return cairn_err_set(err, CAIRN_INVALID, "volume policy: unknown action '%s'",
			     type ? type : "");
}

static int match_list(const json_t *list, const struct volume *volume,
		      enum velero_policy_action *ret, struct cairn_err *err)
{
	enum velero_policy_action found = VELERO_POLICY_NONE, action;
	size_t i;
	json_t *policy;

	json_array_foreach(list, i, policy)
	{
		int holds = policy_holds(policy, volume, err);
		int rc = holds < 0 ? holds : action_of(policy, &action, err);

		if (rc)
			return rc;
		if (holds && found == VELERO_POLICY_NONE)
			found = action;
	}
	*ret = found;
	return 0;
}

int velero_policy_match(const json_t *config_map, const json_t *pv, const json_t *pvc,
			enum velero_policy_action *ret, struct cairn_err *err)
{
	json_t *data = kube_at(config_map, "data");
	const struct volume volume = {.pv = pv, .pvc = pvc};
	kube_auto_json json_t *policies = NULL;
	const json_t *list;
	const char *text;
	int rc;

	if (json_object_size(data) != 1)
		return cairn_err_set(err, CAIRN_INVALID,
				     "ConfigMap %s must hold one text with volume policies",
				     kube_name(config_map));
	text = json_string_value(json_object_iter_value(json_object_iter(data)));
	rc = kube_yaml_parse(text ? text : "", text ? strlen(text) : 0, &policies, err);
	if (rc)
		return cairn_err_wrap(err, "volume policies in ConfigMap %s",
				      kube_name(config_map));
	list = kube_at(policies, "volumePolicies");
	if (list && !json_is_null(list) && !json_is_array(list))
		return volume_policy_wrong(err, "volumePolicies");
	return match_list(list, &volume, ret, err);
}
