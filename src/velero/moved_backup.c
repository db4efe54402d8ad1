/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/moved_backup.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "kube/kube_resource.h"
#include "kube/object.h"

#define NAMESPACE_CHARS 63U
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

bool velero_is_backup_id(const char *text)
{
	size_t n = text ? strspn(text, "0123456789abcdef") : 0;

	return n == ID_DIGITS && text[n] == '\0';
}

int velero_forget_view(const json_t *object, struct velero_forget *ret, struct cairn_err *err)
{
	struct velero_forget view = {
		.location = kube_str(object, "data", VELERO_FORGET_LOCATION),
		.ns = kube_str(object, "data", VELERO_FORGET_NAMESPACE),
		.backup_id = kube_str(object, "data", VELERO_FORGET_BACKUP),
	};

	if (!view.location || !*view.location || !velero_is_namespace(view.ns) ||
	    !velero_is_backup_id(view.backup_id))
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

int velero_forget_object(const json_t *upload, const json_t *backup, const char *location,
			 json_t **ret, struct cairn_err *err)
{
	const char *id = kube_str(upload, "status", "snapshotID");
	const char *source = kube_str(upload, "spec", "sourceNamespace");
	kube_auto_json json_t *made = NULL;
	char name[FORGET_NAME_MAX];
	int rc;

	*ret = NULL;
	if (!velero_is_moved_by_us(upload) || !velero_is_backup_id(id) ||
	    !velero_is_namespace(source) || !forget_is_of(upload, backup))
		return 0;
	/* Named after the id, so that a repeated deletion finds the first request. */
	snprintf(name, sizeof(name), "cairn-forget-%.40s", id);
	made = kube_object_new(&kube_configmaps, kube_namespace(backup), name);
	rc = made ? kube_set(made, err,
			     json_pack("{s:s,s:s}", VELERO_LABEL_FORGET, "true",
				       "app.kubernetes.io/managed-by", "cairn"),
			     "metadata", "labels")
		  : cairn_err_nomem(err, "ConfigMap");
	if (!rc)
		rc = kube_set(made, err,
			      json_pack("{s:s,s:s,s:s}", VELERO_FORGET_LOCATION, location,
					VELERO_FORGET_NAMESPACE, source, VELERO_FORGET_BACKUP, id),
			      "data");
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}
