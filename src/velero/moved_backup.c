/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/moved_backup.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "kube/kube_resource.h"
#include "kube/object.h"

#define NAMESPACE_CHARS 63U
#define NAME_CHARS      253U
#define ID_DIGITS       64U
#define FORGET_NAME_MAX 64

bool velero_is_moved_by_us(const json_t *object)
{
	const char *mover = kube_str(object, "spec", "datamover");

	return mover && strcmp(mover, VELERO_MOVER_NAME) == 0;
}

bool velero_is_namespace(const char *text)
{
	size_t n = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") : 0;

	return n > 0 && n <= NAMESPACE_CHARS && text[n] == '\0' && text[0] != '-' &&
	       text[n - 1] != '-';
}

bool velero_is_object_name(const char *text)
{
	size_t n = text ? strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") : 0;

	return n > 0 && n <= NAME_CHARS && text[n] == '\0' && text[0] != '-' && text[0] != '.';
}

bool velero_is_backup_id(const char *text)
{
	size_t n = text ? strspn(text, "0123456789abcdef") : 0;

	return n == ID_DIGITS && text[n] == '\0';
}

int velero_moved_parse(const char *text, struct velero_moved *ret, struct cairn_err *err)
{
	const char *location = strchr(text, ',');
	const char *id = location ? strchr(location + 1, ',') : NULL;
	struct velero_moved moved = {0};

	if (id && location - text < (ptrdiff_t)sizeof(moved.ns) &&
	    id - location <= (ptrdiff_t)sizeof(moved.location)) {
		memcpy(moved.ns, text, (size_t)(location - text));
		memcpy(moved.location, location + 1, (size_t)(id - location - 1));
		snprintf(moved.backup_id, sizeof(moved.backup_id), "%s", id + 1);
	}
	if (!id || !velero_is_namespace(moved.ns) || !velero_is_object_name(moved.location) ||
	    !velero_is_backup_id(id + 1))
		return cairn_err_set(err, CAIRN_INVALID, "'%.80s' names no moved volume", text);
	*ret = moved;
	return 0;
}

void velero_moved_format(const struct velero_moved *moved, char out[VELERO_MOVED_TEXT_MAX])
{
	snprintf(out, VELERO_MOVED_TEXT_MAX, "%s,%s,%s", moved->ns, moved->location,
		 moved->backup_id);
}

int velero_forget_view(const json_t *object, struct velero_forget *ret, struct cairn_err *err)
{
	const char *id = kube_str(object, "data", VELERO_FORGET_BACKUP);
	const char *upload = kube_str(object, "data", VELERO_FORGET_UPLOAD);
	struct velero_forget view = {
		.location = kube_str(object, "data", VELERO_FORGET_LOCATION),
		.ns = kube_str(object, "data", VELERO_FORGET_NAMESPACE),
	};

	if (!view.location || !*view.location || !velero_is_namespace(view.ns) || (id && upload))
		return cairn_err_set(err, CAIRN_INVALID, "the ConfigMap names no moved backup");
	if (velero_is_backup_id(id))
		snprintf(view.word, sizeof(view.word), "%s", id);
	else if (velero_is_namespace(upload)) /* an uid has the same letters */
		snprintf(view.word, sizeof(view.word), "--tagged=" VELERO_UPLOAD_TAG "=%s", upload);
	else
		return cairn_err_set(err, CAIRN_INVALID, "the ConfigMap names no moved backup");
	*ret = view;
	return 0;
}

/* Did that Backup move it? A Backup of Velero's namespace holds the DataUploads of others too,
 * which keep their data. Names are compared: a Backup has another uid on another cluster. */
static bool forget_is_of(const json_t *upload, const json_t *backup)
{
	size_t i;
	json_t *owner;

	json_array_foreach(kube_at(upload, "metadata", "ownerReferences"), i, owner)
	{
		if (cairn_text_same(kube_str(owner, "kind"), "Backup") &&
		    cairn_text_same(kube_str(owner, "name"), kube_name(backup)))
			return true;
	}
	return false;
}

/* Named after what it asks for, so that a repeated request finds the first. */
static int forget_make(const char *velero_ns, const char *location, const char *source_ns,
		       const char *key, const char *value, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *made = NULL;
	char name[FORGET_NAME_MAX];
	int rc;

	snprintf(name, sizeof(name), "cairn-forget-%.40s", value);
	made = kube_object_new(&kube_configmaps, velero_ns, name);
	rc = made ? kube_set(made, err,
			     json_pack("{s:s,s:s}", VELERO_LABEL_FORGET, "true",
				       "app.kubernetes.io/managed-by", "cairn"),
			     "metadata", "labels")
		  : cairn_err_nomem(err, "ConfigMap");
	if (!rc)
		rc = kube_set(made, err,
			      json_pack("{s:s,s:s,s:s}", VELERO_FORGET_LOCATION, location,
					VELERO_FORGET_NAMESPACE, source_ns, key, value),
			      "data");
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}

int velero_forget_backup(const char *velero_ns, const struct velero_moved *moved, json_t **ret,
			 struct cairn_err *err)
{
	return forget_make(velero_ns, moved->location, moved->ns, VELERO_FORGET_BACKUP,
			   moved->backup_id, ret, err);
}

int velero_forget_upload(const json_t *upload, json_t **ret, struct cairn_err *err)
{
	const char *location = kube_str(upload, "spec", "backupStorageLocation");
	const char *source = kube_str(upload, "spec", "sourceNamespace");

	if (!location || !source)
		return cairn_err_set(err, CAIRN_INVALID, "the DataUpload has no location");
	return forget_make(kube_namespace(upload), location, source, VELERO_FORGET_UPLOAD,
			   kube_uid(upload), ret, err);
}

int velero_forget_object(const json_t *upload, const json_t *backup, const char *location,
			 json_t **ret, struct cairn_err *err)
{
	const char *id = kube_str(upload, "status", "snapshotID");
	const char *source = kube_str(upload, "spec", "sourceNamespace");

	*ret = NULL;
	if (!velero_is_moved_by_us(upload) || !velero_is_backup_id(id) ||
	    !velero_is_namespace(source) || !forget_is_of(upload, backup))
		return 0;
	return forget_make(kube_namespace(backup), location, source, VELERO_FORGET_BACKUP, id, ret,
			   err);
}
