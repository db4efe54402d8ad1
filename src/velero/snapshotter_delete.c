/* SPDX-License-Identifier: Apache-2.0 */

/* DeleteSnapshot. */

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/content_discard.h"
#include "velero/moved_backup.h"
#include "velero/snapshotter.h"
#include "velero/static_content.h"
#include "velero/velero_names.h"
#include "velero/world.h"

static int list_by_id(const struct velero_snapshotter *s, struct kube_client *client,
		      const struct kube_ref *ref, const char *id, json_t **ret,
		      struct cairn_err *err)
{
	char label[VELERO_LABEL_VALUE_MAX], selector[VELERO_SELECTOR_MAX];
	struct kube_list_query query = {.label_selector = selector};
	int rc = velero_label_of_text(id, label, err);

	if (rc)
		return rc;
	velero_selector(VELERO_LABEL_SNAPSHOT_ID, label, selector);
	return kube_list(client, ref, &query, &s->how, ret, err);
}

/* Progress objects of the backup of this volume go first. They are not worth an error: where
 * the kind or the right is missing, there are none. */
static void delete_progress(const struct velero_snapshotter *s, struct kube_client *client,
			    const char *id)
{
	kube_auto_json json_t *list = NULL;
	struct cairn_err err = {0};
	size_t i;
	json_t *object;
	int rc = list_by_id(s, client, KUBE_REF(&velero_volume_backups, s->world->ns, NULL), id,
			    &list, &err);

	json_array_foreach(kube_at(list, "items"), i, object)
	{
		if (!rc && cairn_text_same(kube_str(object, "status", "snapshotID"), id))
			rc = kube_delete(
				client,
				KUBE_REF(&velero_volume_backups, s->world->ns, kube_name(object)),
				NULL, &s->how, NULL, &err);
	}
	if (rc && rc != CAIRN_NOT_FOUND)
		cairn_log(CAIRN_LOG_INFO, "a progress object is not deleted",
			  CAIRN_STR("error", err.msg));
}

/* Deletes the contents in this cluster that refer to the snapshot. */
static int delete_contents(const struct velero_snapshotter *s, struct kube_client *client,
			   const char *text, const struct velero_snapshot_id *id, bool *ret_found,
			   struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *content;
	int rc = list_by_id(s, client, KUBE_REF(&kube_volumesnapshotcontents, NULL, NULL), text,
			    &list, err);

	json_array_foreach(kube_at(list, "items"), i, content)
	{
		if (rc || !cairn_text_same(velero_content_handle(content), id->handle) ||
		    !cairn_text_same(kube_str(content, "spec", "driver"), id->driver))
			continue;
		*ret_found = true;
		rc = velero_content_discard(client, content, &s->how, err);
	}
	return rc;
}

/* No content is left: one is made, so that the driver is asked to delete the snapshot. */
static int delete_by_handle(const struct velero_snapshotter *s, struct kube_client *client,
			    const struct velero_snapshot_id *id, struct cairn_err *err)
{
	struct velero_static_content wanted = {
		.id = id, .ns = s->world->ns, .role = VELERO_ROLE_DELETE, .policy = "Delete"};
	kube_auto_json json_t *classes = NULL, *object = NULL, *made = NULL;
	char name[32];
	uint64_t number;
	int rc = cairn_random_bytes(&number, sizeof(number), err);

	if (!rc)
		rc = kube_list(client, KUBE_REF(&kube_volumesnapshotclasses, NULL, NULL), NULL,
			       &s->how, &classes, err);
	if (rc)
		return rc;
	snprintf(name, sizeof(name), "velero-%016llx", (unsigned long long)number);
	wanted.name = name;
	wanted.classes = classes;
	rc = velero_static_content_object(&wanted, &object, err);
	if (!rc)
		rc = kube_create(client, KUBE_REF(&kube_volumesnapshotcontents, NULL, NULL), object,
				 &s->how, &made, err);
	if (rc)
		return rc;
	rc = velero_content_discard(client, made, &s->how, err);
	/* A Velero that asks again makes another one. */
	if (rc)
		(void)kube_delete(client, KUBE_REF(&kube_volumesnapshotcontents, NULL, name), NULL,
				  NULL, NULL, NULL);
	return rc;
}

/* The location of the Backup that is being deleted, if all such Backups have the same: it has
 * another name where the Backup was synchronised from the bucket. */
static int deleted_location(const struct velero_snapshotter *s, struct kube_client *client,
			    struct velero_moved *moved, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	const char *found = NULL;
	size_t i;
	json_t *backup;
	int rc = kube_list(client, KUBE_REF(&velero_backups, s->world->ns, NULL), NULL, &s->how,
			   &list, err);

	json_array_foreach(kube_at(list, "items"), i, backup)
	{
		const char *location = kube_str(backup, "spec", "storageLocation");

		if (!cairn_text_same(kube_str(backup, "status", "phase"), "Deleting") || !location)
			continue;
		if (found && strcmp(found, location) != 0)
			return rc;
		found = location;
	}
	if (found)
		snprintf(moved->location, sizeof(moved->location), "%s", found);
	return rc;
}

/* Asks the data mover to forget the copy in the repository. */
static int forget_copy(const struct velero_snapshotter *s, struct kube_client *client,
		       const struct velero_snapshot_id *id, struct cairn_err *err)
{
	struct velero_moved moved = id->moved;
	kube_auto_json json_t *request = NULL;
	int rc;

	if (!moved.ns[0])
		return 0;
	rc = deleted_location(s, client, &moved, err);
	if (!rc)
		rc = velero_forget_backup(s->world->ns, &moved, &request, err);
	if (!rc)
		rc = kube_create(client, KUBE_REF(&kube_configmaps, s->world->ns, NULL), request,
				 &s->how, NULL, err);
	return rc == CAIRN_EXISTS ? 0 : rc;
}

int velero_snapshotter_delete(const struct velero_snapshotter *s, const char *snapshot_id,
			      struct cairn_err *err)
{
	struct velero_snapshot_id id;
	struct kube_client *client;
	bool found = false;
	int rc = velero_snapshot_id_parse(snapshot_id, &id, err);

	if (!rc)
		rc = velero_world_client(s->world, &client, err);
	if (rc)
		return rc;
	delete_progress(s, client, snapshot_id);
	rc = forget_copy(s, client, &id, err);
	if (!rc)
		rc = delete_contents(s, client, snapshot_id, &id, &found, err);
	if (!rc && !found)
		rc = delete_by_handle(s, client, &id, err);
	if (rc)
		return cairn_err_wrap(err, "snapshot %.200s", snapshot_id);
	cairn_log(CAIRN_LOG_INFO, "snapshot deleted", CAIRN_STR("id", snapshot_id));
	return 0;
}
