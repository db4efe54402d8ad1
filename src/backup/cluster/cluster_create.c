/* SPDX-License-Identifier: Apache-2.0 */

/* The backup of a claim: create a snapshot, a claim from it and a Job, then clean up. */

#include "backup/cluster/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_affinity.h"
#include "backup/cluster/cluster_driver.h"
#include "backup/cluster/cluster_journal.h"
#include "backup/cluster/cluster_place.h"
#include "backup/cluster/cluster_run.h"
#include "backup/cluster/cluster_watch.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/object.h"

struct saving {
	struct cluster_run run;
	struct cluster_driver *driver; /* NULL: a Job does it */
	json_t *claim;                 /* the claim that is backed up */
	json_t *volume;
	json_t *class_object;  /* NULL if unknown */
	json_t *given_class;   /* NULL: the claim's */
	json_t *snapshot;      /* once it is ready */
	json_t *node_affinity; /* of the Job; NULL: any node */
	char *objects;
	char *snapshot_class;
	const char *driver_name;
	bool keep;
	bool locked;
	struct cluster_journal journal;
};

static void saving_done(struct saving *s)
{
	backup_cluster_driver_closep(&s->driver);
	backup_cluster_journal_done(&s->journal);
	if (s->run.kube)
		backup_cluster_run_end(&s->run);
	json_decref(s->claim);
	json_decref(s->volume);
	json_decref(s->class_object);
	json_decref(s->given_class);
	json_decref(s->snapshot);
	json_decref(s->node_affinity);
	free(s->objects);
	free(s->snapshot_class);
}

void backup_cluster_result_done(struct cluster_result *result)
{
	json_decref(result->summary);
	*result = (struct cluster_result){0};
}

/* --- reading the objects --- */

static int find_volume(struct saving *s, struct cairn_err *err)
{
	const struct cluster_names *names = &s->run.names;
	const char *volume;
	int rc = backup_cluster_get(&s->run,
				    KUBE_REF(&kube_persistentvolumeclaims, names->ns, names->claim),
				    &s->claim, err);

	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, rc, "there is no claim '%s/%s'", names->ns, names->claim);
	if (rc)
		return cairn_err_wrap(err, "claim '%s/%s'", names->ns, names->claim);
	volume = kube_str(s->claim, "spec", "volumeName");
	if (!volume)
		return cairn_err_set(err, CAIRN_PRECONDITION, "claim '%s/%s' has no volume yet",
				     names->ns, names->claim);
	rc = backup_cluster_get(&s->run, KUBE_REF(&kube_persistentvolumes, NULL, volume),
				&s->volume, err);
	if (rc)
		return cairn_err_wrap(err, "PersistentVolume '%s'", volume);
	s->driver_name = kube_str(s->volume, "spec", "csi", "driver");
	if (!s->driver_name)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the volume of claim '%s/%s' is of no CSI driver", names->ns,
				     names->claim);
	return 0;
}

static const char *cluster_create_class_of(const json_t *claim)
{
	const char *name = kube_str(claim, "spec", "storageClassName");

	return name && *name ? name : NULL;
}

/* A class that cannot be read does not fail the backup, because it is only recorded with it. */
static int find_class(struct saving *s, struct cairn_err *err)
{
	const char *given = s->run.options->storage_class;
	const char *name = cluster_create_class_of(s->claim);
	struct cairn_err why = {0};
	int rc = 0;

	if (given)
		rc = backup_cluster_get(&s->run, KUBE_REF(&kube_storageclasses, NULL, given),
					&s->given_class, err);
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, rc, "there is no StorageClass '%s'", given);
	if (rc)
		return cairn_err_wrap(err, "StorageClass '%s'", given);
	if (name)
		rc = backup_cluster_get(&s->run, KUBE_REF(&kube_storageclasses, NULL, name),
					&s->class_object, &why);
	if (rc == CAIRN_CANCELLED)
		return cairn_err_set(err, rc, "%s", why.msg);
	if (rc)
		backup_say(&s->run.options->talk, "StorageClass '%s' is not kept: %s", name,
			   why.msg);
	return 0;
}

static int pack_objects(struct saving *s, struct cairn_err *err)
{
	json_t *class_object = s->class_object ? backup_cluster_sanitised(s->class_object) : NULL;
	kube_auto_json json_t *objects =
		json_pack("{s:o,s:o,s:o*}", "persistentvolumeclaim",
			  backup_cluster_sanitised(s->claim), "persistentvolume",
			  backup_cluster_sanitised(s->volume), "storageclass", class_object);

	s->objects = objects ? kube_json_text(objects, NULL) : NULL;
	if (!s->objects)
		return cairn_err_nomem(err, "objects");
	if (strlen(s->objects) <= CLUSTER_OBJECTS_MAX)
		return 0;
	return cairn_err_set(err, CAIRN_NO_SPACE,
			     "claim, PersistentVolume and StorageClass together are larger than %u "
			     "bytes",
			     CLUSTER_OBJECTS_MAX);
}

/* Whether the driver needs the last backup's snapshot to report changes. */
static int choose_base(struct saving *s, struct cairn_err *err)
{
	const struct cluster_options *o = s->run.options;
	kube_auto_json json_t *service = NULL;
	bool needed = true;
	int rc;

	if (o->base != CLUSTER_BASE_AUTO) {
		s->keep = o->base == CLUSTER_BASE_KEEP;
		return 0;
	}
	rc = backup_cluster_get(&s->run,
				KUBE_REF(&kube_snapshotmetadataservices, NULL, s->driver_name),
				&service, err);
	if (rc == CAIRN_NOT_FOUND) {
		s->keep = false;
		return 0; /* the driver does not report changes */
	}
	if (rc)
		return cairn_err_wrap(err, "SnapshotMetadataService '%s'", s->driver_name);
	kube_bool(service, &needed, "spec", "requireBaseSnapshotForDelta");
	s->keep = needed;
	return 0;
}

static int cluster_create_prepare(struct saving *s, struct cairn_err *err)
{
	const struct cluster_options *o = s->run.options;
	int rc = find_volume(s, err);

	if (!rc)
		rc = find_class(s, err);
	if (!rc)
		rc = pack_objects(s, err);
	if (!rc && !o->snapshot)
		rc = backup_cluster_find_snapshot_class(&s->run, s->driver_name, &s->snapshot_class,
							err);
	if (!rc && o->direct.endpoint)
		rc = backup_cluster_driver_open(o->direct.endpoint, CLUSTER_DRIVER_DIR, &s->driver,
						err);
	if (!rc)
		rc = backup_cluster_run_lock(&s->run, err);
	s->locked = !rc;
	if (!rc)
		rc = choose_base(s, err);
	if (!rc && s->driver)
		rc = backup_cluster_driver_sweep(s->driver, err);
	return rc ? rc : backup_cluster_run_sweep(&s->run, s->claim, s->keep, err);
}

/* --- creating the objects --- */

static const char *snapshot_name(const struct saving *s)
{
	return s->run.options->snapshot ? s->run.options->snapshot : s->run.names.name;
}

static int cluster_create_make_job(struct saving *s, struct cairn_err *err)
{
	const struct cluster_options *o = s->run.options;
	struct cluster_args args = {0};
	struct cluster_job_spec spec;

	backup_cluster_args_add(&args, (const char *const[]){"backup", "create", "--device",
							     CLUSTER_DEVICE, "--namespace", o->ns,
							     "--volume-snapshot", snapshot_name(s),
							     "--objects", CLUSTER_OBJECTS_FILE,
							     "--output", "ndjson", NULL});
	if (o->ca_key)
		backup_cluster_args_add(
			&args, (const char *const[]){"--ca-file", CLUSTER_CA_DIR "/ca.crt", NULL});
	backup_cluster_args_add(&args, o->args);
	spec = backup_cluster_job_of(&s->run, &args);
	spec.asks_kubernetes = true;
	spec.device_claim = s->run.names.name;
	spec.objects = s->objects;
	spec.node_affinity = s->node_affinity;
	return backup_cluster_run_job(&s->run, &spec, true, err);
}

/* The owner of all objects of the run: the Job, or the claim if there is none. */
static const json_t *cluster_create_owner(const struct saving *s)
{
	return s->run.job ? s->run.job : s->claim;
}

static int cluster_create_make_snapshot(struct saving *s, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc = backup_cluster_snapshot(&s->run.names, s->run.names.claim, s->snapshot_class,
					 cluster_create_owner(s), &object, err);

	if (rc)
		return rc;
	s->run.has_snapshot = true;
	return backup_cluster_make(&s->run, &kube_volumesnapshots, object, NULL, err);
}

/* Checks that a snapshot that the user named is of this claim. */
static int cluster_create_check_snapshot(const struct saving *s, struct cairn_err *err)
{
	const char *of = kube_str(s->snapshot, "spec", "source", "persistentVolumeClaimName");

	if (!of || strcmp(of, s->run.names.claim) != 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "VolumeSnapshot '%s' is not of claim '%s', but of '%s'",
				     kube_name(s->snapshot), s->run.names.claim, of ? of : "");
	return 0;
}

static int wait_snapshot(struct saving *s, struct cairn_err *err)
{
	const char *mode = kube_str(s->claim, "spec", "volumeMode");
	int rc = backup_cluster_wait_snapshot(&s->run, snapshot_name(s), &s->snapshot, err);

	if (!rc)
		rc = cluster_create_check_snapshot(s, err);
	if (!rc && (!mode || strcmp(mode, "Block") != 0))
		rc = backup_cluster_allow_mode_change(&s->run, s->snapshot, err);
	return rc;
}

/* A snapshot that the user named may be older than the claim, which was created again on another
 * node since: only its content says where it is. Other snapshots are cut from the volume. */
static int choose_affinity(struct saving *s, struct cairn_err *err)
{
	const char *name = kube_str(s->snapshot, "status", "boundVolumeSnapshotContentName");
	struct cluster_origin origin = {
		.volume = s->volume,
		.storage_class = s->given_class ? s->given_class : s->class_object,
	};
	kube_auto_json json_t *content = NULL;
	int rc = 0;

	if (name && backup_cluster_has_affinity(s->volume))
		rc = backup_cluster_get(&s->run, KUBE_REF(&kube_volumesnapshotcontents, NULL, name),
					&content, err);
	if (rc)
		return cairn_err_wrap(err, "VolumeSnapshotContent '%s'", name);
	origin.content = content;
	return backup_cluster_node_affinity(&origin, &s->node_affinity, err);
}

static int cluster_create_make_claim(struct saving *s, struct cairn_err *err)
{
	const char *size = kube_str(s->snapshot, "status", "restoreSize");
	const char *given = s->run.options->storage_class;
	struct cluster_claim_spec spec = {
		.names = &s->run.names,
		.storage_class = given ? given : cluster_create_class_of(s->claim),
		.mode = "Block",
		.size = size,
		.snapshot = snapshot_name(s),
		.owner = cluster_create_owner(s),
	};
	kube_auto_json json_t *object = NULL;
	int rc;

	if (!size || strcmp(size, "0") == 0)
		spec.size = kube_str(s->volume, "spec", "capacity", "storage");
	rc = backup_cluster_claim(&spec, &object, err);
	if (rc)
		return rc;
	s->run.has_claim = true;
	return backup_cluster_make(&s->run, &kube_persistentvolumeclaims, object, NULL, err);
}

/* The backup exists, so a failure from here on is only reported as a note. */
static bool settle_base(struct saving *s)
{
	const struct cluster_options *o = s->run.options;
	struct cairn_err why = {0};
	int rc = 0;

	if (o->snapshot)
		return true; /* it belongs to the user */
	if (s->keep) {
		rc = backup_cluster_keep_base(&s->run, s->run.names.name, s->claim, &why);
		s->run.has_snapshot = rc != 0;
	}
	if (!rc)
		rc = backup_cluster_drop_bases(&s->run, s->keep ? s->run.names.name : NULL, &why);
	if (rc)
		backup_say(&o->talk, "%s", why.msg);
	return !s->run.has_snapshot;
}

static int cluster_create_save(struct saving *s, struct cluster_result *result,
			       struct cairn_err *err)
{
	struct cluster_work work = {
		.claim = s->run.names.name, .snapshot = snapshot_name(s), .objects = s->objects};
	bool is_new = !s->run.options->snapshot;
	int rc = is_new ? 0 : wait_snapshot(s, err);

	if (!rc && !is_new)
		backup_cluster_journal_started(&s->journal, s->snapshot);
	if (!rc && !s->driver)
		rc = choose_affinity(s, err);
	if (!rc && !s->driver)
		rc = cluster_create_make_job(s, err);
	if (!rc && is_new)
		rc = cluster_create_make_snapshot(s, err);
	if (!rc && is_new)
		rc = wait_snapshot(s, err);
	if (!rc)
		rc = cluster_create_make_claim(s, err);
	if (!rc)
		rc = backup_cluster_work_do(&s->run, s->driver, &work, err);
	if (rc)
		return rc;
	result->summary = work.summary;
	result->base_kept = settle_base(s);
	snprintf(result->snapshot, sizeof(result->snapshot), "%.63s", snapshot_name(s));
	snprintf(result->job, sizeof(result->job), "%s", s->run.job ? s->run.names.name : "");
	return 0;
}

/* Notes what came of the run, unless another run goes on for the claim: that is the one to note. */
static void cluster_create_note(struct saving *s, int rc, const struct cluster_result *result,
				const struct cairn_err *err)
{
	bool stays = s->run.options->snapshot || (!rc && result->base_kept && s->keep);

	if (!rc)
		backup_cluster_journal_finished(&s->journal, s->claim, stays ? s->snapshot : NULL,
						result->summary);
	else if (s->claim && (s->locked || (rc != CAIRN_ABORTED && rc != CAIRN_CANCELLED)))
		backup_cluster_journal_failed(&s->journal, s->claim, stays ? s->snapshot : NULL,
					      err);
}

int backup_cluster_backup(const struct cluster_options *options, struct cluster_result *ret,
			  struct cairn_err *err)
{
	cairn_cleanup(saving_done) struct saving s = {0};
	struct cluster_result result = {0};
	int rc = backup_cluster_run_begin(&s.run, options, CLUSTER_ROLE_CREATE, err);

	if (rc)
		return rc;
	backup_cluster_journal_begin(&s.journal, &s.run);
	rc = cluster_create_prepare(&s, err);
	if (!rc) {
		backup_cluster_journal_started(&s.journal, s.claim);
		rc = cluster_create_save(&s, &result, err);
	}
	cluster_create_note(&s, rc, &result, err);
	if (!rc)
		*ret = result;
	return rc;
}
