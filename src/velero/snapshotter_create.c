/* SPDX-License-Identifier: Apache-2.0 */

/* CreateSnapshot. */

#include <stdio.h>
#include <string.h>

#include "backup/cluster/cluster_objects.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/action.h"
#include "velero/claim_snapshot.h"
#include "velero/content_discard.h"
#include "velero/progress.h"
#include "velero/repository_copy.h"
#include "velero/snapshot_class.h"
#include "velero/snapshotter.h"
#include "velero/velero_names.h"
#include "velero/world.h"

#define TAG_BACKUP "velero.io/backup"
#define TAG_VOLUME "velero.io/pv"
#define DISCARD_MS 120000U

/* Everything about one snapshot; the trees are owned. */
struct taking {
	const struct velero_snapshotter *s;
	struct kube_client *client;
	const char *volume_id, *zone, *backup_name, *volume;
	json_t *pv, *claim, *backup, *classes;
	struct velero_class_choice choice;
	char name[VELERO_SNAPSHOTTER_NAME_MAX];
	char location[VELERO_NAME_MAX];
};

static void taking_done(struct taking *t)
{
	json_decref(t->pv);
	json_decref(t->claim);
	json_decref(t->backup);
	json_decref(t->classes);
}

static const char *tag_value(const struct velero_pair *tags, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(tags[i].key, key) == 0)
			return tags[i].value;
	return NULL;
}

/* Finds the claim of the volume, and checks that both are what Velero means. */
static int find_claim(struct taking *t, struct cairn_err *err)
{
	const char *ns, *name;
	int rc = kube_get(t->client, KUBE_REF(&kube_persistentvolumes, NULL, t->volume), &t->s->how,
			  &t->pv, err);

	if (rc)
		return rc;
	if (!cairn_text_same(kube_str(t->pv, "spec", "csi", "volumeHandle"), t->volume_id))
		return cairn_err_set(err, CAIRN_PRECONDITION, "it is not volume '%.100s'",
				     t->volume_id);
	ns = kube_str(t->pv, "spec", "claimRef", "namespace");
	name = kube_str(t->pv, "spec", "claimRef", "name");
	if (!ns || !name)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "it has no claim, and a CSI snapshot is taken of a claim");
	rc = kube_get(t->client, KUBE_REF(&kube_persistentvolumeclaims, ns, name), &t->s->how,
		      &t->claim, err);
	if (rc == CAIRN_NOT_FOUND ||
	    (!rc && !cairn_text_same(kube_str(t->claim, "spec", "volumeName"), t->volume)))
		return cairn_err_set(err, CAIRN_PRECONDITION, "claim %s/%s is not bound to it", ns,
				     name);
	return rc;
}

/* The VolumeSnapshotLocation that the Backup names for this provider, for the progress object;
 * "" if that is not known. */
static void snapshot_location(struct taking *t)
{
	kube_auto_json json_t *list = NULL;
	const json_t *named = kube_at(t->backup, "spec", "volumeSnapshotLocations");
	size_t i, j;
	json_t *location, *name;

	if (kube_list(t->client, KUBE_REF(&velero_snapshot_locations, t->s->world->ns, NULL), NULL,
		      &t->s->how, &list, NULL))
		return;
	json_array_foreach(kube_at(list, "items"), i, location)
	{
		if (!cairn_text_same(kube_str(location, "spec", "provider"), VELERO_SNAPSHOTTER))
			continue;
		json_array_foreach(named, j, name)
		{
			if (cairn_text_same(json_string_value(name), kube_name(location)))
				snprintf(t->location, sizeof(t->location), "%s",
					 kube_name(location));
		}
	}
}

static int find_all(struct taking *t, struct cairn_err *err)
{
	int rc = find_claim(t, err);

	if (rc)
		return rc;
	rc = kube_get(t->client, KUBE_REF(&velero_backups, t->s->world->ns, t->backup_name),
		      &t->s->how, &t->backup, err);
	if (!rc)
		rc = kube_list(t->client, KUBE_REF(&kube_volumesnapshotclasses, NULL, NULL), NULL,
			       &t->s->how, &t->classes, err);
	if (!rc)
		rc = velero_class_choose(t->classes, kube_str(t->pv, "spec", "csi", "driver"),
					 t->claim, t->backup, &t->choice, err);
	if (!rc)
		rc = velero_snapshotter_name(t->backup, t->volume, t->name, err);
	if (!rc)
		snapshot_location(t);
	return rc;
}

/* No volume gets two snapshots in one backup: ours is found again, one of the item action is
 * an error. */
static int check_others(const struct taking *t, struct cairn_err *err)
{
	char label[VELERO_LABEL_VALUE_MAX], selector[VELERO_SELECTOR_MAX];
	struct kube_list_query query = {.label_selector = selector};
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *snapshot;
	int rc = velero_label_value(t->backup_name, label, err);

	if (rc)
		return rc;
	velero_selector(VELERO_LABEL_BACKUP, label, selector);
	rc = kube_list(t->client, KUBE_REF(&kube_volumesnapshots, kube_namespace(t->claim), NULL),
		       &query, &t->s->how, &list, err);
	json_array_foreach(kube_at(list, "items"), i, snapshot)
	{
		if (!rc && strcmp(kube_name(snapshot), t->name) != 0 &&
		    cairn_text_same(
			    kube_str(snapshot, "spec", "source", "persistentVolumeClaimName"),
			    kube_name(t->claim)))
			rc = cairn_err_set(
				err, CAIRN_EXISTS, "claim %s/%s has snapshot %s in this backup",
				kube_namespace(t->claim), kube_name(t->claim), kube_name(snapshot));
	}
	return rc;
}

static uint64_t capacity_of(const json_t *pv)
{
	const char *text = kube_str(pv, "spec", "capacity", "storage");
	uint64_t bytes = 0;

	return text && backup_cluster_quantity(text, &bytes) ? bytes : 0;
}

static void begin_progress(const struct taking *t, struct velero_progress *progress)
{
	const char *type = kube_str(t->pv, "spec", "storageClassName");
	const struct velero_volume_backup info = {
		.name = t->name,
		.backup = t->backup,
		.volume = t->volume,
		.volume_id = t->volume_id,
		.location = t->location,
		.provider = VELERO_SNAPSHOTTER,
		.volume_type = type ? type : "",
		.zone = *t->zone ? t->zone : NULL,
	};
	kube_auto_json json_t *object = NULL;

	if (!velero_volume_backup_object(&info, t->s->world->ns, cairn_now_ns(), capacity_of(t->pv),
					 &object, NULL))
		velero_progress_begin(progress, t->s->world, &velero_volume_backups, object,
				      &t->s->how);
}

/* The label by which DeleteSnapshot finds the content. */
static int label_content(const struct taking *t, const json_t *content, const char *id,
			 struct cairn_err *err)
{
	char label[VELERO_LABEL_VALUE_MAX];
	kube_auto_json json_t *patch = NULL;
	int rc = velero_label_of_text(id, label, err);

	if (rc)
		return rc;
	patch = json_pack("{s:{s:{s:s}}}", "metadata", "labels", VELERO_LABEL_SNAPSHOT_ID, label);
	if (!patch)
		return cairn_err_nomem(err, "a patch");
	return kube_patch(t->client,
			  KUBE_REF(&kube_volumesnapshotcontents, NULL, kube_name(content)),
			  KUBE_PATCH_MERGE, patch, &t->s->how, NULL, err);
}

/* Copies the snapshot to the repository, if the location says so; a snapshot whose copy failed
 * does not stay. */
static int copy_snapshot(const struct taking *t, const struct velero_csi_snapshot *made,
			 struct velero_progress *progress, struct velero_moved *ret,
			 struct cairn_err *err)
{
	const struct velero_copy copy = {
		.s = t->s, .client = t->client, .name = t->name, .progress = progress};
	const struct velero_copy_source source = {
		.backup = t->backup, .snapshot = made->snapshot, .claim = t->claim};
	const struct kube_call how = {.timeout_ms = DISCARD_MS};
	struct cairn_err left = {0};
	int rc;

	if (!velero_world_uploads(t->s->world))
		return 0;
	rc = velero_copy_to_repository(&copy, &source, ret, err);
	if (rc && velero_content_discard(t->client, made->content, &how, &left) != 0)
		cairn_log(CAIRN_LOG_WARN, "a snapshot is left", CAIRN_STR("snapshot", t->name),
			  CAIRN_STR("error", left.msg));
	return rc;
}

static int take_snapshot(const struct taking *t, struct velero_progress *progress,
			 char ret[VELERO_SNAPSHOT_ID_MAX], uint64_t *ret_bytes,
			 struct cairn_err *err)
{
	const struct velero_request request = {
		.world = t->s->world, .item = t->claim, .owner = t->backup, .how = t->s->how};
	const struct velero_snapshot_wish wish = {.class_name = kube_name(t->choice.class_object),
						  .role = VELERO_ROLE_SNAPSHOTTER,
						  .name = t->name,
						  .volume = t->volume};
	cairn_cleanup(velero_csi_snapshot_done) struct velero_csi_snapshot made = {0};
	struct velero_snapshot_id id = {
		.block = cairn_text_same(kube_str(t->pv, "spec", "volumeMode"), "Block")};
	int64_t size = 0;
	int rc = velero_csi_snapshot_make(&request, &wish, &made, err);

	if (rc)
		return rc;
	snprintf(id.driver, sizeof(id.driver), "%s", kube_str(t->pv, "spec", "csi", "driver"));
	id.handle = kube_str(made.content, "status", "snapshotHandle");
	if (kube_i64(made.content, &size, "status", "restoreSize") && size > 0)
		id.bytes = (uint64_t)size;
	if (id.bytes < capacity_of(t->pv))
		id.bytes = capacity_of(t->pv);
	*ret_bytes = id.bytes;
	rc = copy_snapshot(t, &made, progress, &id.moved, err);
	if (!rc)
		rc = velero_snapshot_id_format(&id, ret, err);
	return rc ? rc : label_content(t, made.content, ret, err);
}

static int create_all(struct taking *t, char ret[VELERO_SNAPSHOT_ID_MAX], struct cairn_err *err)
{
	struct velero_progress progress = {0};
	uint64_t bytes = 0;
	int rc = velero_world_client(t->s->world, &t->client, err);

	if (!rc)
		rc = find_all(t, err);
	if (!rc)
		rc = check_others(t, err);
	if (rc)
		return rc;
	begin_progress(t, &progress);
	rc = take_snapshot(t, &progress, ret, &bytes, err);
	velero_progress_end(&progress, rc ? NULL : ret, bytes, rc ? err : NULL);
	return rc;
}

int velero_snapshotter_create(const struct velero_snapshotter *s, const char *volume_id,
			      const char *zone, const struct velero_pair *tags, size_t n_tags,
			      char ret[VELERO_SNAPSHOT_ID_MAX], struct cairn_err *err)
{
	cairn_cleanup(taking_done) struct taking t = {
		.s = s,
		.volume_id = volume_id,
		.zone = zone,
		.backup_name = tag_value(tags, n_tags, TAG_BACKUP),
		.volume = tag_value(tags, n_tags, TAG_VOLUME),
	};
	int rc;

	if (!t.backup_name || !*t.backup_name || !t.volume || !*t.volume)
		return cairn_err_set(err, CAIRN_INVALID, "no tag " TAG_BACKUP " or " TAG_VOLUME);
	rc = create_all(&t, ret, err);
	if (rc)
		return cairn_err_wrap(err, "PersistentVolume %.253s", t.volume);
	cairn_log(CAIRN_LOG_INFO, "snapshot taken", CAIRN_STR("volume", t.volume),
		  CAIRN_STR("namespace", kube_namespace(t.claim)),
		  CAIRN_STR("claim", kube_name(t.claim)), CAIRN_STR("snapshot", t.name),
		  CAIRN_STR("id", ret));
	return 0;
}
