/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/volume_records.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/claim_snapshot.h"
#include "velero/velero_names.h"

/* Velero writes null for a backup without such snapshots. */
static int check_array(const json_t *array, struct cairn_err *err)
{
	if (json_is_null(array))
		return 0;
	if (!json_is_array(array) || json_array_size(array) > VELERO_RECORDS_MAX)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "the snapshots of volumes are not an array of at most %d",
				     VELERO_RECORDS_MAX);
	return 0;
}

static json_t *element_of(const json_t *array, const char *volume)
{
	size_t i;
	json_t *element;

	json_array_foreach(array, i, element)
	{
		if (cairn_text_same(kube_str(element, "spec", "persistentVolumeName"), volume))
			return element;
	}
	return NULL;
}

/* Adds what `to` does not have. */
static int add_missing(json_t *element, const char *part, const json_t *from, bool *changed,
		       struct cairn_err *err)
{
	json_t *to = json_object_get(element, part);
	json_t *value;
	const char *key;

	json_object_foreach((json_t *)(uintptr_t)kube_at(from, part), key, value)
	{
		if (json_object_get(to, key) || json_is_null(value))
			continue;
		if (kube_set(element, err, kube_copy(value), part, key))
			return CAIRN_NO_SPACE;
		*changed = true;
	}
	return 0;
}

static int add_object(json_t *element, const json_t *object, bool *changed, struct cairn_err *err)
{
	json_t *labels = kube_at(object, "metadata", "labels");
	int rc = 0;

	if (!cairn_text_same(kube_str(element, "metadata", "name"), kube_name(object))) {
		*changed = true;
		rc = kube_set(element, err, json_string("velero.io/v1"), "apiVersion");
		if (!rc)
			rc = kube_set(element, err, json_string(velero_volume_backups.kind),
				      "kind");
		if (!rc)
			rc = kube_set(element, err,
				      json_pack("{s:s, s:s, s:O*}", "name", kube_name(object),
						"namespace", kube_namespace(object), "labels",
						labels),
				      "metadata");
	}
	if (!rc)
		rc = add_missing(element, "spec", object, changed, err);
	return rc ? rc : add_missing(element, "status", object, changed, err);
}

int velero_records_merge(json_t *array, const json_t *list, bool *ret_changed,
			 struct cairn_err *err)
{
	size_t i;
	json_t *object;
	int rc = check_array(array, err);

	*ret_changed = false;
	json_array_foreach(kube_at(list, "items"), i, object)
	{
		json_t *element =
			element_of(array, kube_str(object, "spec", "persistentVolumeName"));

		if (!rc && element)
			rc = add_object(element, object, ret_changed, err);
	}
	return rc;
}

static int record_labels(json_t *object, const json_t *backup, struct cairn_err *err)
{
	const char *volume = kube_str(object, "spec", "persistentVolumeName");
	const char *id = kube_str(object, "status", "snapshotID");
	char backup_label[VELERO_LABEL_VALUE_MAX], volume_label[VELERO_LABEL_VALUE_MAX];
	char id_label[VELERO_LABEL_VALUE_MAX];
	int rc = velero_label_value(kube_name(backup), backup_label, err);

	if (!rc)
		rc = velero_label_value(volume ? volume : "", volume_label, err);
	if (!rc)
		rc = velero_label_of_text(id ? id : "", id_label, err);
	return rc ? rc
		  : kube_set(object, err,
			     json_pack("{s:s, s:s, s:s, s:s*}", VELERO_LABEL_BACKUP, backup_label,
				       VELERO_LABEL_PV, volume_label, VELERO_LABEL_VOLUME,
				       volume_label, VELERO_LABEL_SNAPSHOT_ID,
				       id ? id_label : NULL),
			     "metadata", "labels");
}

/* The object of one element; *ret is the caller's. */
static int record_object(const json_t *element, const json_t *backup, const char *ns, json_t **ret,
			 struct cairn_err *err)
{
	kube_auto_json json_t *object =
		kube_object_new(&velero_volume_backups, ns, kube_name(element));
	json_t *spec = kube_at(element, "spec"), *status = kube_at(element, "status");
	int rc = object ? 0 : cairn_err_nomem(err, "an object");

	if (!rc && json_is_object(spec))
		rc = kube_set(object, err, kube_copy(spec), "spec");
	if (!rc && json_is_object(status))
		rc = kube_set(object, err, kube_copy(status), "status");
	/* The Backup of this cluster may have another UID. */
	if (!rc)
		rc = kube_set(object, err, json_string(kube_name(backup)), "spec", "backupName");
	if (!rc)
		rc = record_labels(object, backup, err);
	if (!rc)
		rc = velero_own_by_backup(object, kube_name(backup), kube_uid(backup), err);
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

int velero_records_objects(const json_t *array, const json_t *backup, const char *ns, json_t **ret,
			   struct cairn_err *err)
{
	kube_auto_json json_t *objects = json_array();
	size_t i;
	json_t *element;
	int rc = objects ? check_array(array, err) : cairn_err_nomem(err, "a list");

	json_array_foreach(array, i, element)
	{
		json_t *object = NULL;

		if (rc || !*kube_name(element))
			continue;
		rc = record_object(element, backup, ns, &object, err);
		if (!rc && json_array_append_new(objects, object))
			rc = cairn_err_nomem(err, "a list");
	}
	if (!rc)
		*ret = cairn_take(objects);
	return rc;
}
