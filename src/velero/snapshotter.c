/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes and their ids. */

#include "velero/snapshotter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/velero_names.h"
#include "velero/world.h"

int velero_snapshotter_init(struct velero_world *world, const struct velero_pair *config, size_t n,
			    struct cairn_err *err)
{
	bool upload = false;

	for (size_t i = 0; i < n; i++) {
		if (strcmp(config[i].key, "credentialsFile") == 0)
			continue; /* Velero's, for the location's credential */
		if (strcmp(config[i].key, "upload") != 0)
			return cairn_err_set(err, CAIRN_INVALID,
					     "VolumeSnapshotLocation: there is no setting '%.60s'",
					     config[i].key);
		upload = strcmp(config[i].value, "true") == 0;
		if (!upload && strcmp(config[i].value, "false") != 0)
			return cairn_err_set(err, CAIRN_INVALID,
					     "VolumeSnapshotLocation: upload is true or false");
	}
	velero_world_set_upload(world, upload);
	return 0;
}

int velero_handle_label(const char *handle, char out[VELERO_HANDLE_LABEL_MAX],
			struct cairn_err *err)
{
	char hex[VELERO_RESTORED_NAME_MAX];
	int rc = velero_restored_name("", handle, hex, err);

	if (!rc) {
		memcpy(out, hex, VELERO_HANDLE_LABEL_MAX - 1);
		out[VELERO_HANDLE_LABEL_MAX - 1] = 0;
	}
	return rc;
}

/* Has the driver a VolumeSnapshotClass? A cluster without the kind has none. */
static int driver_has_class(const struct velero_snapshotter *s, const char *driver, bool *ret,
			    struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	struct kube_client *client;
	json_t *class_object;
	size_t i;
	int rc = velero_world_client(s->world, &client, err);

	if (!rc)
		rc = kube_list(client, KUBE_REF(&kube_volumesnapshotclasses, NULL, NULL), NULL,
			       &s->how, &list, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : cairn_err_wrap(err, "VolumeSnapshotClasses");
	json_array_foreach(kube_at(list, "items"), i, class_object)
	{
		if (cairn_text_same(kube_str(class_object, "driver"), driver))
			*ret = true;
	}
	return 0;
}

int velero_snapshotter_volume_id(const struct velero_snapshotter *s, const json_t *pv,
				 const char **ret, struct cairn_err *err)
{
	const char *driver = kube_str(pv, "spec", "csi", "driver");
	const char *handle = kube_str(pv, "spec", "csi", "volumeHandle");
	bool can = false;
	int rc = 0;

	if (driver && handle)
		rc = driver_has_class(s, driver, &can, err);
	if (!rc)
		*ret = can ? handle : "";
	return rc;
}

/* The volume with a handle; *ret is the caller's. */
static int snapshotter_find_volume(const struct velero_snapshotter *s, const char *handle,
				   json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	struct kube_client *client;
	json_t *pv;
	size_t i;
	int rc = velero_world_client(s->world, &client, err);

	if (!rc)
		rc = kube_list(client, KUBE_REF(&kube_persistentvolumes, NULL, NULL), NULL, &s->how,
			       &list, err);
	if (rc)
		return rc;
	json_array_foreach(kube_at(list, "items"), i, pv)
	{
		if (cairn_text_same(kube_str(pv, "spec", "csi", "volumeHandle"), handle)) {
			*ret = json_incref(pv);
			return 0;
		}
	}
	return cairn_err_set(err, CAIRN_NOT_FOUND, "no PersistentVolume has the handle '%.100s'",
			     handle);
}

int velero_snapshotter_volume_type(const struct velero_snapshotter *s, const char *volume_id,
				   char **ret, struct cairn_err *err)
{
	kube_auto_json json_t *pv = NULL;
	const char *type;
	int rc = snapshotter_find_volume(s, volume_id, &pv, err);

	if (rc)
		return rc;
	type = kube_str(pv, "spec", "storageClassName");
	*ret = cairn_strdup(type ? type : "");
	return *ret ? 0 : cairn_err_nomem(err, "a text");
}

/* The volume that velero_snapshotter_restore() left for this handle; *ret is NULL if there is
 * none, else the caller's. */
static int find_left(const struct velero_snapshotter *s, struct kube_client *client,
		     const char *handle, json_t **ret, struct cairn_err *err)
{
	char label[VELERO_HANDLE_LABEL_MAX], selector[VELERO_SELECTOR_MAX];
	struct kube_list_query query = {.label_selector = selector};
	kube_auto_json json_t *list = NULL;
	json_t *pv;
	size_t i;
	int rc = velero_handle_label(handle, label, err);

	if (rc)
		return rc;
	velero_selector(VELERO_LABEL_HANDLE, label, selector);
	rc = kube_list(client, KUBE_REF(&kube_persistentvolumes, NULL, NULL), &query, &s->how,
		       &list, err);
	json_array_foreach(kube_at(list, "items"), i, pv)
	{
		if (!*ret && cairn_text_same(kube_str(pv, "spec", "csi", "volumeHandle"), handle))
			*ret = json_incref(pv);
	}
	return rc;
}

/* Takes over what the driver said of the new volume. */
static int adopt(json_t *pv, const json_t *left, struct cairn_err *err)
{
	json_t *affinity = kube_at(left, "spec", "nodeAffinity");
	int rc = kube_set(pv, err, kube_copy(kube_at(left, "spec", "csi")), "spec", "csi");

	kube_remove(pv, "spec", "nodeAffinity");
	if (!rc && affinity)
		rc = kube_set(pv, err, kube_copy(affinity), "spec", "nodeAffinity");
	return rc;
}

int velero_snapshotter_set_volume(const struct velero_snapshotter *s, json_t *pv,
				  const char *volume_id, struct cairn_err *err)
{
	kube_auto_json json_t *left = NULL;
	struct kube_client *client;
	int rc;

	if (!json_is_object(kube_at(pv, "spec", "csi")) || !*volume_id)
		return cairn_err_set(err, CAIRN_INVALID, "PersistentVolume %s is not one of CSI",
				     kube_name(pv));
	rc = velero_world_client(s->world, &client, err);
	if (!rc)
		rc = find_left(s, client, volume_id, &left, err);
	if (rc)
		return cairn_err_wrap(err, "volume '%.100s'", volume_id);
	if (!left)
		return kube_set(pv, err, json_string(volume_id), "spec", "csi", "volumeHandle");
	rc = adopt(pv, left, err);
	/* Its policy is Retain: the volume itself stays. */
	if (!rc)
		rc = kube_delete(client, KUBE_REF(&kube_persistentvolumes, NULL, kube_name(left)),
				 NULL, &s->how, NULL, err);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}
