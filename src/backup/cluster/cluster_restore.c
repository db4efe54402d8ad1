/* SPDX-License-Identifier: Apache-2.0 */

/* Restores to a new claim. A claim in Block mode is written directly. One in
 * Filesystem mode cannot be written as a device, so a Block-mode claim is written
 * first, and the claim is then created from a snapshot of it, which is the way
 * that Kubernetes supports. */

#include "backup/cluster/cluster.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_affinity.h"
#include "backup/cluster/cluster_driver.h"
#include "backup/cluster/cluster_place.h"
#include "backup/cluster/cluster_run.h"
#include "backup/cluster/cluster_watch.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "kube/kube_client.h"
#include "kube/object.h"

struct restoring {
	struct cluster_run run;
	struct cluster_driver *driver; /* NULL: a Job does it */
	json_t *described;             /* the description of the backup */
	json_t *class_object;
	char size[24];
	const char *mode;
	const char *storage_class;
	const json_t *access_modes; /* NULL: the default */
	bool is_files;
	char *snapshot_class;
};

static void cluster_restore_restoring_done(struct restoring *r)
{
	backup_cluster_driver_closep(&r->driver);
	if (r->run.kube)
		backup_cluster_run_end(&r->run);
	json_decref(r->described);
	json_decref(r->class_object);
	free(r->snapshot_class);
}

/* --- planning --- */

/* Runs a Job that describes the backup, because only it can open the
 * repository. */
static int describe_by_job(struct restoring *r, struct cairn_err *err)
{
	struct cluster_run *run = &r->run;
	struct cluster_args args = {0};
	struct cluster_job_spec spec;
	int rc;

	backup_cluster_args_add(
		&args, (const char *const[]){"backup", "describe", "--output", "ndjson", NULL});
	if (run->options->ca_key)
		backup_cluster_args_add(
			&args, (const char *const[]){"--ca-file", CLUSTER_CA_DIR "/ca.crt", NULL});
	backup_cluster_args_add(&args, run->options->describe);
	spec = backup_cluster_job_of(run, &args);
	spec.suffix = "-d";
	rc = backup_cluster_run_job(run, &spec, false, err);
	if (!rc)
		rc = backup_cluster_follow_job(run, run->job_name, NULL, &r->described, err);
	if (!rc && !r->described)
		rc = cairn_err_set(err, CAIRN_INTERNAL,
				   "the Job did not say what the backup is of");
	return rc ? rc : backup_cluster_run_drop_job(run, err);
}

static int cluster_restore_choose_size(struct restoring *r, const json_t *claim,
				       struct cairn_err *err)
{
	const char *stored = kube_str(claim, "spec", "resources", "requests", "storage");
	int64_t image = 0;
	uint64_t least;
	uint64_t size = r->run.options->size;
	uint64_t asked = 0;

	if (!kube_i64(r->described, &image, "size_bytes") || image <= 0)
		return cairn_err_set(err, CAIRN_INVALID, "the backup is of no volume");
	least = (uint64_t)image;
	if (size && size < least)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the volume had %" PRIu64 " bytes; %" PRIu64 " are too few",
				     least, size);
	if (!size && stored && backup_cluster_quantity(stored, &asked) && asked > least)
		size = asked;
	snprintf(r->size, sizeof(r->size), "%" PRIu64, size ? size : least);
	return 0;
}

static int cluster_restore_choose(struct restoring *r, struct cairn_err *err)
{
	const struct cluster_options *o = r->run.options;
	const json_t *claim = kube_at(r->described, "kubernetes", "persistentvolumeclaim");
	int rc = cluster_restore_choose_size(r, claim, err);

	if (rc)
		return rc;
	r->mode = o->mode ? o->mode : kube_str(claim, "spec", "volumeMode");
	if (!r->mode)
		r->mode = claim ? "Filesystem" : "Block"; /* the API's default */
	r->is_files = strcmp(r->mode, "Block") != 0;
	r->access_modes = kube_at(claim, "spec", "accessModes");
	r->storage_class =
		o->storage_class ? o->storage_class : kube_str(claim, "spec", "storageClassName");
	if (!r->storage_class || !*r->storage_class)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the backup does not say of which StorageClass the claim was: "
				     "name one with --storage-class");
	rc = backup_cluster_get(&r->run, KUBE_REF(&kube_storageclasses, NULL, r->storage_class),
				&r->class_object, err);
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, rc,
				     "there is no StorageClass '%s': name one with --storage-class",
				     r->storage_class);
	return rc ? cairn_err_wrap(err, "StorageClass '%s'", r->storage_class) : 0;
}

/* An existing claim of that name is left alone, unless a killed run created
 * it. */
static int cluster_restore_refuse_existing(struct restoring *r, struct cairn_err *err)
{
	const struct cluster_names *names = &r->run.names;
	kube_auto_json json_t *found = NULL;
	const char *role;
	int rc = backup_cluster_get(&r->run,
				    KUBE_REF(&kube_persistentvolumeclaims, names->ns, names->claim),
				    &found, err);

	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc)
		return cairn_err_wrap(err, "claim '%s/%s'", names->ns, names->claim);
	role = kube_label(found, CLUSTER_LABEL_ROLE);
	if (role && strcmp(role, CLUSTER_ROLE_RESTORE) == 0)
		return 0;
	return cairn_err_set(err, CAIRN_EXISTS, "there is a claim '%s/%s' already", names->ns,
			     names->claim);
}

/* Waits until the object of an earlier run is deleted, before its name is used
 * again. */
static int wait_gone(struct restoring *r, struct cairn_err *err)
{
	const struct cluster_names *names = &r->run.names;
	int rc = 0;

	while (!rc) {
		kube_auto_json json_t *found = NULL;

		rc = backup_cluster_get(
			&r->run, KUBE_REF(&kube_persistentvolumeclaims, names->ns, names->claim),
			&found, err);
		if (!rc)
			rc = backup_cluster_run_pause(&r->run, 300, err);
	}
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int cluster_restore_prepare(struct restoring *r, struct cairn_err *err)
{
	const struct cluster_options *o = r->run.options;
	int rc = cluster_restore_refuse_existing(r, err);

	if (!rc && o->direct.endpoint)
		rc = backup_cluster_driver_open(o->direct.endpoint, CLUSTER_DRIVER_DIR, &r->driver,
						err);
	if (!rc)
		rc = backup_cluster_run_lock(&r->run, err);
	if (!rc && r->driver)
		rc = backup_cluster_driver_sweep(r->driver, err);
	if (!rc)
		rc = backup_cluster_run_sweep(&r->run, NULL, false, err);
	if (!rc)
		rc = wait_gone(r, err);
	if (!rc)
		rc = r->driver ? o->direct.describe(o->direct.arg, &r->described, err)
			       : describe_by_job(r, err);
	if (!rc)
		rc = cluster_restore_choose(r, err);
	if (!rc && r->is_files)
		rc = backup_cluster_find_snapshot_class(
			&r->run, kube_str(r->class_object, "provisioner"), &r->snapshot_class, err);
	return rc;
}

/* --- creating the objects --- */

/* The claim that is written to. */
static const char *device_claim(const struct restoring *r)
{
	return r->is_files ? r->run.names.name : r->run.names.claim;
}

static int cluster_restore_make_job(struct restoring *r, struct cairn_err *err)
{
	const struct cluster_options *o = r->run.options;
	struct cluster_args args = {0};
	struct cluster_job_spec spec;
	const char *id = kube_str(r->described, "id");

	/* The Job must restore the backup that was described: "latest" may change
	 * meanwhile. */
	if (!id)
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "the Job that described the backup did not report its id");
	backup_cluster_args_add(&args, (const char *const[]){"backup", "restore", id, "--to",
							     CLUSTER_DEVICE, "--overwrite",
							     "--output", "ndjson", NULL});
	if (o->ca_key)
		backup_cluster_args_add(
			&args, (const char *const[]){"--ca-file", CLUSTER_CA_DIR "/ca.crt", NULL});
	backup_cluster_args_add(&args, o->args);
	spec = backup_cluster_job_of(&r->run, &args);
	spec.device_claim = device_claim(r);
	return backup_cluster_run_job(&r->run, &spec, true, err);
}

static int cluster_restore_make_claim(struct restoring *r, const char *name, const char *mode,
				      const char *snapshot, struct cairn_err *err)
{
	bool is_new = strcmp(name, r->run.names.claim) == 0;
	struct cluster_claim_spec spec = {
		.names = &r->run.names,
		.name = name,
		.storage_class = r->storage_class,
		.mode = mode,
		.size = r->size,
		.access_modes = is_new ? r->access_modes : NULL,
		.snapshot = snapshot,
		.owner = r->run.job,
	};
	kube_auto_json json_t *object = NULL;
	int rc = backup_cluster_claim(&spec, &object, err);

	if (rc)
		return rc;
	rc = backup_cluster_make(&r->run, &kube_persistentvolumeclaims, object, NULL, err);
	if (rc == CAIRN_EXISTS)
		return rc; /* not created by this run */
	if (is_new)
		r->run.made = r->run.names.claim;
	else
		r->run.has_claim = true;
	return rc;
}

/* The class may wait for a pod before it provisions the volume; and this
 * verifies that the filesystem can be mounted. */
static int mount_files(struct restoring *r, struct cairn_err *err)
{
	struct cluster_args args = {0};
	struct cluster_job_spec spec;
	kube_auto_json json_t *object = NULL;
	kube_auto_json json_t *job = NULL;
	kube_auto_json json_t *volume = NULL;
	kube_auto_json json_t *said = NULL;
	kube_auto_json json_t *affinity = NULL;
	struct cluster_origin origin = {.storage_class = r->class_object};
	int rc;

	if (r->driver)
		return backup_cluster_wait_volume(&r->run, r->run.names.claim, &volume, err);
	rc = backup_cluster_wait_volume(&r->run, device_claim(r), &volume, err);
	origin.volume = volume;
	if (!rc)
		rc = backup_cluster_node_affinity(&origin, &affinity, err);
	if (rc)
		return rc;
	backup_cluster_args_add(&args, (const char *const[]){"--version", NULL});
	spec = backup_cluster_job_of(&r->run, &args);
	spec.suffix = "-m";
	spec.owner = r->run.job;
	spec.repository_claim = NULL;
	spec.mount_claim = r->run.names.claim;
	spec.node_affinity = affinity;
	rc = backup_cluster_job(&spec, &object, err);
	if (!rc)
		rc = backup_cluster_make(&r->run, &kube_jobs, object, &job, err);
	if (!rc)
		rc = backup_cluster_follow_job(&r->run, kube_name(job), r->run.names.claim, &said,
					       err);
	return rc ? cairn_err_wrap(err, "mount what was restored") : 0;
}

static int make_files(struct restoring *r, struct cairn_err *err)
{
	struct cluster_run *run = &r->run;
	kube_auto_json json_t *object = NULL;
	kube_auto_json json_t *snapshot = NULL;
	int rc = backup_cluster_snapshot(&run->names, run->names.name, r->snapshot_class, run->job,
					 &object, err);

	if (rc)
		return rc;
	run->has_snapshot = true;
	rc = backup_cluster_make(run, &kube_volumesnapshots, object, NULL, err);
	if (!rc)
		rc = backup_cluster_wait_snapshot(run, run->names.name, &snapshot, err);
	if (!rc)
		rc = backup_cluster_allow_mode_change(run, snapshot, err);
	if (!rc)
		rc = cluster_restore_make_claim(r, run->names.claim, r->mode, run->names.name, err);
	return rc ? rc : mount_files(r, err);
}

/* Removes the labels of the run: from here on the claim belongs to the user. */
static int cluster_restore_hand_over(struct restoring *r, struct cairn_err *err)
{
	const struct cluster_names *names = &r->run.names;
	int rc = backup_cluster_patch(
		&r->run, KUBE_REF(&kube_persistentvolumeclaims, names->ns, names->claim),
		json_pack("{s:{s:{s:n,s:n,s:n,s:n,s:n},s:{s:n},s:n}}", "metadata", "labels",
			  "app.kubernetes.io/managed-by", CLUSTER_LABEL_ROLE, CLUSTER_LABEL_CLAIM,
			  CLUSTER_LABEL_RUN, CLUSTER_LABEL_REPOSITORY, "annotations",
			  CLUSTER_ANNOTATION_OF, "ownerReferences"),
		err);

	if (!rc)
		r->run.made = NULL;
	return rc;
}

static int cluster_restore_restore(struct restoring *r, struct cluster_result *result,
				   struct cairn_err *err)
{
	struct cluster_work work = {.claim = device_claim(r)};
	int rc = r->driver ? 0 : cluster_restore_make_job(r, err);

	if (!rc)
		rc = cluster_restore_make_claim(r, device_claim(r), "Block", NULL, err);
	if (!rc)
		rc = backup_cluster_work_do(&r->run, r->driver, &work, err);
	result->summary = work.summary;
	if (!rc && r->is_files)
		rc = make_files(r, err);
	if (!rc)
		rc = cluster_restore_hand_over(r, err);
	snprintf(result->job, sizeof(result->job), "%s", r->run.job ? r->run.names.name : "");
	return rc;
}

int backup_cluster_restore(const struct cluster_options *options, struct cluster_result *ret,
			   struct cairn_err *err)
{
	cairn_cleanup(cluster_restore_restoring_done) struct restoring r = {0};
	struct cluster_result result = {0};
	int rc = backup_cluster_run_begin(&r.run, options, CLUSTER_ROLE_RESTORE, err);

	if (!rc)
		rc = cluster_restore_prepare(&r, err);
	if (!rc)
		rc = cluster_restore_restore(&r, &result, err);
	if (rc) {
		backup_cluster_result_done(&result);
		return rc;
	}
	*ret = result;
	return 0;
}
