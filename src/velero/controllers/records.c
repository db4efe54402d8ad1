/* SPDX-License-Identifier: Apache-2.0 */

/* Files beside Velero's in the object store, and progress objects that are read from them.
 *
 * When a backup has ended, its progress objects are added to <backup>-volumesnapshots.json.gz,
 * and its VolumeSnapshots are written to csi-snapshots.json.gz. Where the file has progress
 * objects that the cluster has not, because another one made the backup, they are created.
 * While a backup runs, nothing is written; a file that Velero has deleted meanwhile is removed
 * again. */

#include "velero/controllers/controllers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/controller.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "repo/repo_store.h"
#include "velero/backup_files.h"
#include "velero/backup_phase.h"
#include "velero/csi_records.h"
#include "velero/velero_names.h"
#include "velero/volume_records.h"

#define WORKERS      2U
#define PAUSE_MIN_MS 500U
#define PAUSE_MAX_MS 60000U

struct records {
	struct velero_common common;
	struct kube_controller *base;
	pthread_mutex_t lock; /* guards `done` */
	json_t *done;         /* {key: resource version of the Backup that was looked at last} */
};

/* One look at one backup; borrowed, but `list`. */
struct look {
	const struct records *r;
	struct kube_call how;
	const json_t *backup;
	struct repo_store *store;
	const char *selector;
	json_t *list; /* progress objects; NULL: the cluster has no such kind */
};

/* Is the Backup still there, and not being deleted? An error is not an absence. */
static int is_current(const struct look *l, bool *ret, struct cairn_err *err)
{
	kube_auto_json json_t *now = NULL;
	int rc = kube_get(l->r->common.client,
			  KUBE_REF(&velero_backups, l->r->common.ns, kube_name(l->backup)), &l->how,
			  &now, err);

	*ret = !rc && strcmp(kube_uid(now), kube_uid(l->backup)) == 0 &&
	       velero_backup_has_ended(now);
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* Writes a file. If the backup is deleted at the same time, Velero may have listed its files
 * before: then the file must not stay. */
static int records_write(const struct look *l, const char *file, const json_t *value,
			 struct cairn_err *err)
{
	const char *name = kube_name(l->backup);
	bool current = false, stored = false;
	int rc = is_current(l, &current, err);

	if (rc || !current)
		return rc;
	rc = velero_file_write(l->store, name, file, value, err);
	if (!rc)
		rc = is_current(l, &current, err);
	if (rc || current)
		return rc;
	rc = velero_file_has_backup(l->store, name, &stored, err);
	return rc || stored ? rc : velero_file_remove(l->store, name, file, err);
}

static int create_missing(const struct look *l, const json_t *array, struct cairn_err *err)
{
	kube_auto_json json_t *objects = NULL;
	size_t i;
	json_t *object;
	int rc = velero_records_objects(array, l->backup, l->r->common.ns, &objects, err);

	json_array_foreach(objects, i, object)
	{
		if (rc)
			break;
		rc = kube_create(l->r->common.client,
				 KUBE_REF(&velero_volume_backups, l->r->common.ns, NULL), object,
				 &l->how, NULL, err);
		if (!rc)
			cairn_log(CAIRN_LOG_INFO, "progress object created from the store",
				  CAIRN_STR("backup", kube_name(l->backup)),
				  CAIRN_STR("name", kube_name(object)));
		if (rc == CAIRN_EXISTS)
			rc = 0;
	}
	return rc;
}

/* Both directions: to the file, and from it. */
static int keep_volumes(const struct look *l, struct cairn_err *err)
{
	kube_auto_json json_t *array = NULL;
	bool changed = false;
	int rc = l->list ? velero_file_read(l->store, kube_name(l->backup), VELERO_FILE_VOLUMES,
					    &array, err)
			 : CAIRN_NOT_FOUND;

	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	rc = velero_records_merge(array, l->list, &changed, err);
	if (!rc && changed)
		rc = records_write(l, VELERO_FILE_VOLUMES, array, err);
	if (!rc && changed)
		cairn_log(CAIRN_LOG_INFO, "progress objects kept in the store",
			  CAIRN_STR("backup", kube_name(l->backup)));
	return rc ? rc : create_missing(l, array, err);
}

static int list_csi(const struct look *l, json_t **ret, struct cairn_err *err)
{
	struct kube_client *client = l->r->common.client;
	const struct kube_list_query query = {.label_selector = l->selector};
	kube_auto_json json_t *snapshots = NULL, *contents = NULL;
	int rc = kube_list(client, KUBE_REF(&kube_volumesnapshots, NULL, NULL), &query, &l->how,
			   &snapshots, err);

	if (!rc)
		rc = kube_list(client, KUBE_REF(&kube_volumesnapshotcontents, NULL, NULL), &query,
			       &l->how, &contents, err);
	if (rc == CAIRN_NOT_FOUND) { /* no such kinds, so no snapshots */
		*ret = json_array();
		return *ret ? 0 : cairn_err_nomem(err, "a list");
	}
	return rc ? rc : velero_csi_records(snapshots, contents, ret, err);
}

/* A file that exists is complete: it was written when the backup had ended. A cluster that did
 * not make the backup has no snapshots of it and writes nothing. */
static int keep_csi(const struct look *l, struct cairn_err *err)
{
	const char *name = kube_name(l->backup);
	kube_auto_json json_t *found = NULL, *records = NULL;
	int rc = velero_file_read(l->store, name, VELERO_FILE_CSI, &found, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	rc = list_csi(l, &records, err);
	if (rc || json_array_size(records) == 0)
		return rc;
	rc = records_write(l, VELERO_FILE_CSI, records, err);
	if (!rc)
		cairn_log(CAIRN_LOG_INFO, "list of CSI snapshots kept in the store",
			  CAIRN_STR("backup", name),
			  CAIRN_U64("snapshots", (uint64_t)json_array_size(records)));
	return rc;
}

static int list_progress(struct look *l, struct cairn_err *err)
{
	const struct kube_list_query query = {.label_selector = l->selector};
	int rc = kube_list(l->r->common.client,
			   KUBE_REF(&velero_volume_backups, l->r->common.ns, NULL), &query, &l->how,
			   &l->list, err);

	return rc == CAIRN_NOT_FOUND || rc == CAIRN_DENIED ? 0 : rc;
}

/* Progress objects of a backup that is gone, or going: they go before the snapshots do. */
static int forget_progress(struct look *l, const char *name, struct cairn_err *err)
{
	size_t i;
	json_t *object;
	int rc = list_progress(l, err);

	json_array_foreach(kube_at(l->list, "items"), i, object)
	{
		if (rc || !cairn_text_same(kube_str(object, "spec", "backupName"), name))
			continue;
		rc = kube_delete(
			l->r->common.client,
			KUBE_REF(&velero_volume_backups, l->r->common.ns, kube_name(object)), NULL,
			&l->how, NULL, err);
		if (rc == CAIRN_NOT_FOUND)
			rc = 0;
	}
	return rc;
}

static int keep_all(struct look *l, struct cairn_err *err)
{
	const char *location = kube_str(l->backup, "spec", "storageLocation");
	bool stored = false;
	int rc = velero_common_store(&l->r->common, location ? location : "default", &l->how,
				     &l->store, err);

	if (!rc)
		rc = velero_file_has_backup(l->store, kube_name(l->backup), &stored, err);
	if (!rc && stored)
		rc = list_progress(l, err);
	if (!rc && stored)
		rc = keep_volumes(l, err);
	return rc || !stored ? rc : keep_csi(l, err);
}

static bool is_done(struct records *r, const char *key, const json_t *backup)
{
	cairn_scoped_lock(&r->lock);
	return cairn_text_same(json_string_value(json_object_get(r->done, key)),
			       kube_resource_version(backup));
}

static void set_done(struct records *r, const char *key, const json_t *backup)
{
	cairn_scoped_lock(&r->lock);
	if (backup)
		(void)json_object_set_new(r->done, key, json_string(kube_resource_version(backup)));
	else
		(void)json_object_del(r->done, key);
}

static void look_done(struct look *l)
{
	json_decref(l->list);
	repo_store_close(l->store);
}

static int records_look(void *arg, const char *key, uint64_t *ret_again_ms, struct cairn_err *err)
{
	struct records *r = arg;
	char parts[KUBE_KEY_MAX], label[VELERO_LABEL_VALUE_MAX], selector[VELERO_SELECTOR_MAX];
	const char *ns, *name;
	cairn_cleanup(look_done) struct look l = {.r = r, .how = kube_controller_call(r->base)};
	kube_auto_json json_t *backup = NULL;
	int rc;

	(void)ret_again_ms;
	kube_key_split(key, parts, &ns, &name);
	backup = kube_informer_get(r->common.backups, ns, name);
	if (backup && is_done(r, key, backup))
		return 0;
	rc = velero_label_value(name, label, err);
	if (rc)
		return rc;
	l.selector = velero_selector(VELERO_LABEL_BACKUP, label, selector);
	l.backup = backup;
	if (!backup || kube_is_deleted(backup) || velero_backup_is_going(backup))
		rc = kube_informer_current(r->common.backups) || backup
			     ? forget_progress(&l, name, err)
			     : cairn_err_set(err, CAIRN_UNAVAILABLE, "Backups are not up to date");
	else if (velero_backup_has_ended(backup))
		rc = keep_all(&l, err);
	if (!rc)
		set_done(r, key, backup);
	return rc;
}

static void records_failed(void *arg, const char *key, const struct cairn_err *err)
{
	(void)arg;
	cairn_log(CAIRN_LOG_WARN, "records of a backup wait", CAIRN_STR("backup", key),
		  CAIRN_STR("error", err->msg));
}

static void records_on_backup(void *arg, const json_t *old, const json_t *now)
{
	struct records *r = arg;

	kube_controller_add_object(r->base, now ? now : old);
}

static void records_free(void *arg)
{
	struct records *r = arg;

	kube_controller_free(r->base);
	json_decref(r->done);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static int records_start(const struct velero_common *common, void **ret, struct cairn_err *err)
{
	struct records *r = cairn_calloc(1, sizeof(*r));
	const struct kube_controller_options options = {
		.workers = WORKERS,
		.pause_min_ms = PAUSE_MIN_MS,
		.pause_max_ms = PAUSE_MAX_MS,
		.elected = true,
		.look = records_look,
		.failed = records_failed,
		.arg = r,
	};
	int rc;

	if (!r)
		return cairn_err_nomem(err, "controller");
	pthread_mutex_init(&r->lock, NULL);
	r->common = *common;
	r->done = json_object();
	rc = r->done ? kube_controller_new(&options, &r->base, err)
		     : cairn_err_nomem(err, "controller");
	if (!rc)
		rc = kube_informer_add_handler(common->backups, records_on_backup, r, err);
	if (!rc)
		rc = kube_controller_start(r->base, err);
	if (rc)
		records_free(r);
	else
		*ret = r;
	return rc;
}

static void records_stop(void *arg)
{
	kube_controller_stop(((struct records *)arg)->base);
}

static void records_lead(void *arg, bool leads)
{
	struct records *r = arg;

	if (kube_controller_lead(r->base, leads))
		kube_controller_add_all(r->base, r->common.backups);
}

const struct velero_controller velero_records_controller = {
	.name = "records",
	.start = records_start,
	.lead = records_lead,
	.stop = records_stop,
	.free = records_free,
};
