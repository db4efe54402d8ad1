/* SPDX-License-Identifier: Apache-2.0 */

/* Which snapshots a backup still needs. */

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "kube/timestamp.h"
#include "repo/repo_objects.h"
#include "repo/repo_store.h"
#include "velero/backup_files.h"
#include "velero/backup_phase.h"
#include "velero/content_discard.h"
#include "velero/controller.h"
#include "velero/controllers/sweep.h"
#include "velero/location.h"
#include "velero/snapshot_id.h"
#include "velero/velero_names.h"

bool velero_sweep_is_old(const json_t *object, uint64_t now_ns, uint64_t period_ms)
{
	uint64_t age_ms = period_ms < VELERO_SWEEP_AGE_MS / 6 ? 2 * period_ms : VELERO_SWEEP_AGE_MS;
	uint64_t made = 0;

	return kube_time_parse(kube_str(object, "metadata", "creationTimestamp"), &made) &&
	       made < now_ns && now_ns - made >= age_ms * CAIRN_NS_PER_MS;
}

/* The Backup with that value of the label; NULL: none. The caller's. */
static int find_backup(const struct velero_common *common, const char *label, json_t **ret,
		       struct cairn_err *err)
{
	json_t **all = NULL;
	size_t n = 0;
	int rc = kube_informer_list(common->backups, &all, &n, err);

	for (size_t i = 0; !rc && i < n; i++) {
		char value[VELERO_LABEL_VALUE_MAX];

		rc = velero_label_value(kube_name(all[i]), value, err);
		if (!rc && !*ret && strcmp(value, label) == 0)
			*ret = json_incref(all[i]);
	}
	kube_objects_free(all, n);
	return rc;
}

static bool names_have(const json_t *names, const char *wanted)
{
	size_t i;
	json_t *name;

	json_array_foreach(names, i, name)
	{
		if (cairn_text_same(json_string_value(name), wanted))
			return true;
	}
	return false;
}

/* Is "NAMESPACE/NAME" of the VolumeSnapshot in the list of the backup's items? The list is
 * {"GROUP/VERSION/KIND": [name, …], …}. */
static bool list_has_snapshot(const json_t *resources, const json_t *snapshot)
{
	static const char kind[] = "/VolumeSnapshot";
	char wanted[KUBE_KEY_MAX];
	const char *key;
	json_t *names;

	if (!json_is_object(resources) || !kube_key(snapshot, wanted))
		return true;
	json_object_foreach((json_t *)(uintptr_t)resources, key, names)
	{
		size_t n = strlen(key);

		if (n >= strlen(kind) && strcmp(key + n - strlen(kind), kind) == 0 &&
		    names_have(names, wanted))
			return true;
	}
	return false;
}

/* Does an element name the storage snapshot, or the volume of a VolumeSnapshot that has none yet? */
static bool volumes_have_snapshot(const json_t *array, const json_t *snapshot,
				  const json_t *content)
{
	const char *label = kube_label(snapshot, VELERO_LABEL_PV);
	const char *handle = velero_content_handle(content);
	size_t i;
	json_t *element;

	json_array_foreach(array, i, element)
	{
		const char *volume = kube_str(element, "spec", "persistentVolumeName");
		const char *id = kube_str(element, "status", "providerSnapshotID");
		char value[VELERO_LABEL_VALUE_MAX];
		struct velero_snapshot_id parts;

		if (!volume || !id || !*id)
			continue;
		if (handle && !velero_snapshot_id_parse(id, &parts, NULL) &&
		    strcmp(parts.handle, handle) == 0)
			return true;
		if (!velero_label_value(volume, value, NULL) && cairn_text_same(value, label))
			return true;
	}
	return false;
}

/* Does a backup that has ended need the VolumeSnapshot? Only a file that can be read answers. */
static int backup_needs(const struct velero_common *common, const json_t *backup,
			const struct velero_swept *what, const struct kube_call *how, bool *ret,
			struct cairn_err *err)
{
	const char *location = kube_str(backup, "spec", "storageLocation");
	bool action = cairn_text_same(kube_label(velero_swept_told(what), VELERO_LABEL_ROLE),
				      VELERO_ROLE_ACTION);
	cairn_cleanup(repo_store_closep) struct repo_store *store = NULL;
	kube_auto_json json_t *file = NULL;
	bool stored = false;
	int rc = velero_common_store(common, location ? location : "default", how, &store, err);

	if (!rc)
		rc = velero_file_has_backup(store, kube_name(backup), &stored, err);
	*ret = stored;
	if (rc || !stored)
		return rc;
	rc = velero_file_read(store, kube_name(backup),
			      action ? VELERO_FILE_RESOURCES : VELERO_FILE_VOLUMES, &file, err);
	if (!rc)
		*ret = action ? list_has_snapshot(file, what->snapshot)
			      : volumes_have_snapshot(file, what->snapshot, what->content);
	return rc;
}

struct has_label {
	const char *label;
	bool found;
};

/* "backups/NAME/velero-backup.json" of a name with that label? */
static int note_label(void *arg, const char *key, uint64_t size, struct cairn_err *err)
{
	struct has_label *has = arg;
	const char *name = key + strlen("backups/");
	size_t n = strcspn(name, "/");
	char copy[KUBE_KEY_MAX], value[VELERO_LABEL_VALUE_MAX];
	int rc;

	(void)size;
	if (n >= sizeof(copy) || strcmp(name + n, "/" VELERO_FILE_METADATA) != 0)
		return 0;
	memcpy(copy, name, n);
	copy[n] = 0;
	rc = velero_label_value(copy, value, err);
	has->found = has->found || (!rc && strcmp(value, has->label) == 0);
	return rc;
}

/* Has any store the backup of the VolumeSnapshot? An error of one store is an error. A
 * location that is removed takes its Backups with it, not what its store holds: without the
 * location of the snapshot's Backup, the answer is yes. */
static int any_store_has(const struct velero_common *common, const struct velero_swept *what,
			 const struct kube_call *how, bool *ret, struct cairn_err *err)
{
	const char *its = kube_annotation(velero_swept_told(what), VELERO_ANNOTATION_LOCATION);
	kube_auto_json json_t *list = NULL;
	struct has_label has = {.label = kube_label(velero_swept_told(what), VELERO_LABEL_BACKUP)};
	bool known = false;
	size_t i;
	json_t *location;
	int rc = kube_list(common->client, KUBE_REF(&velero_locations, common->ns, NULL), NULL, how,
			   &list, err);

	/* Of a content that an older version labelled. */
	if (!its)
		its = kube_annotation(what->snapshot, VELERO_ANNOTATION_LOCATION);
	/* Without a location, there are no Backups in the cluster, whatever the stores hold. */
	if (!rc && json_array_size(kube_at(list, "items")) == 0)
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "there is no BackupStorageLocation");
	json_array_foreach(kube_at(list, "items"), i, location)
	{
		cairn_cleanup(repo_store_closep) struct repo_store *store = NULL;

		if (rc)
			break;
		known = known || cairn_text_same(kube_name(location), its);
		rc = velero_common_store(common, kube_name(location), how, &store, err);
		if (!rc)
			rc = repo_object_list(store, "backups/", note_label, &has, err);
	}
	*ret = has.found || !known;
	return rc;
}

const json_t *velero_swept_told(const struct velero_swept *what)
{
	return kube_label(what->content, VELERO_LABEL_BACKUP) ? what->content : what->snapshot;
}

/* Was it taken in a backup of this Velero server? An older version did not write which. */
static bool is_of_backup(const struct velero_common *common, const json_t *object)
{
	const char *role = kube_label(object, VELERO_LABEL_ROLE);
	const char *server = kube_annotation(object, VELERO_ANNOTATION_SERVER);

	return (!server || strcmp(server, common->ns) == 0) &&
	       (cairn_text_same(role, VELERO_ROLE_ACTION) ||
		cairn_text_same(role, VELERO_ROLE_SNAPSHOTTER));
}

int velero_sweep_backup(const struct velero_common *common, const json_t *object, json_t **ret,
			bool *ret_may, struct cairn_err *err)
{
	const char *label = kube_label(object, VELERO_LABEL_BACKUP);
	int rc;

	*ret_may = false;
	if (!is_of_backup(common, object) || !label)
		return 0;
	if (!kube_informer_current(common->backups))
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "Backups are not up to date");
	rc = find_backup(common, label, ret, err);
	*ret_may = !rc && (!*ret || velero_backup_has_ended(*ret));
	return rc;
}

int velero_sweep_is_needed(const struct velero_common *common, const struct velero_swept *what,
			   const struct kube_call *how, bool *ret, struct cairn_err *err)
{
	const json_t *snapshot = what->snapshot;
	kube_auto_json json_t *backup = NULL;
	bool may = false;
	int rc;

	*ret = true;
	/* The label of the content counts too: users of the namespace can remove the other one, and
	 * the storage snapshot of a restored pair is that of the backup. */
	if (kube_is_deleted(snapshot) || kube_label(snapshot, VELERO_LABEL_RESTORE) ||
	    kube_label(what->content, VELERO_LABEL_RESTORE) ||
	    !velero_sweep_is_old(snapshot, cairn_now_ns(), common->period_ms))
		return 0;
	rc = velero_sweep_backup(common, velero_swept_told(what), &backup, &may, err);
	if (rc || !may)
		return rc;
	return backup ? backup_needs(common, backup, what, how, ret, err)
		      : any_store_has(common, what, how, ret, err);
}
