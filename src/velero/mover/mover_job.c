/* SPDX-License-Identifier: Apache-2.0 */

/* The Jobs of the data mover. */

#include "velero/mover/mover_objects.h"

#include <stdio.h>
#include <stdlib.h>

#include "backup/cluster/cluster_affinity.h"
#include "backup/cluster/cluster_place.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "velero/moved_backup.h"
#include "velero/mover/mover_place.h"
#include "velero/mover/mover_request.h"
#include "velero/velero_names.h"

#define KEEP_S     3600U /* a Job after its end; the controller deletes it at once */
#define NUMBER_MAX 16

/* At most one pod of each slot runs on a node, so at most per_node pods do: the scheduler
 * keeps the limit, also while no controller runs. */
static json_t *slot_patch(unsigned slot)
{
	char text[NUMBER_MAX];

	snprintf(text, sizeof(text), "%u", slot);
	return json_pack(
		"{s:{s:{s:{s:{s:s}},s:{s:{s:{s:[{s:s,s:{s:{s:s}}}]}}}}}}", "spec", "template",
		"metadata", "labels", MOVER_LABEL_SLOT, text, "spec", "affinity", "podAntiAffinity",
		"requiredDuringSchedulingIgnoredDuringExecution", "topologyKey",
		"kubernetes.io/hostname", "labelSelector", "matchLabels", MOVER_LABEL_SLOT, text);
}

static int patch_of(const struct mover_settings *settings, bool limited, unsigned slot,
		    json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *patch = limited ? slot_patch(slot) : json_object();
	int rc = patch ? 0 : cairn_err_nomem(err, "Job");

	if (!rc && settings->patch)
		rc = backup_cluster_merge(patch, settings->patch, err);
	if (!rc)
		*ret = cairn_take(patch);
	return rc;
}

static struct cluster_job_spec job_spec(const struct mover_settings *settings,
					const struct cluster_names *names,
					const struct mover_place *place,
					const struct cluster_args *args)
{
	return (struct cluster_job_spec){
		.names = names,
		.image = settings->image,
		.service_account = settings->service_account,
		.repository = place->repository,
		.ca = place->at.ca_pem,
		.files = place->files,
		.variables = place->variables,
		.args = args->at,
		.deadline_s = settings->deadline_s,
		.keep_s = KEEP_S,
	};
}

static void args_finish(struct cluster_args *args, const struct mover_place *place)
{
	if (place->at.ca_pem)
		backup_cluster_args_add(
			args, (const char *const[]){"--ca-file", CLUSTER_CA_DIR "/ca.crt", NULL});
	backup_cluster_args_add(args, (const char *const[]){"--output", "ndjson", NULL});
}

/* Kept with the backup, for restores without Velero. */
static char *objects_text(const struct mover_source *source)
{
	kube_auto_json json_t *objects = json_pack(
		"{s:o,s:o}", "persistentvolumeclaim", backup_cluster_sanitised(source->claim),
		"persistentvolume", backup_cluster_sanitised(source->volume));

	return objects ? kube_json_text(objects, NULL) : NULL;
}

int mover_upload_job(const struct mover_settings *settings, const struct mover_upload *upload,
		     const struct cluster_names *names, const struct mover_place *place,
		     const struct mover_source *source, const json_t *owner, unsigned slot,
		     json_t **ret, struct cairn_err *err)
{
	const char *handle = kube_str(source->volume, "spec", "csi", "volumeHandle");
	cairn_auto_free char *volume = cairn_printf("%s/%s", upload->source_ns, upload->claim);
	cairn_auto_free char *backup = NULL;
	cairn_auto_free char *request = cairn_printf(VELERO_UPLOAD_TAG "=%s", upload->uid);
	cairn_auto_free char *objects = objects_text(source);
	kube_auto_json json_t *patch = NULL;
	kube_auto_json json_t *affinity = NULL;
	char label[VELERO_LABEL_VALUE_MAX];
	struct cluster_args args = {0};
	struct cluster_job_spec spec;
	int rc = velero_label_value(upload->backup, label, err);

	if (rc)
		return rc;
	backup = cairn_printf("velero-backup=%s", label); /* tags are limited too */
	if (!volume || !backup || !request || !objects || !handle)
		return cairn_err_nomem(err, "Job");
	rc = patch_of(settings, true, slot, &patch, err);
	if (!rc)
		rc = backup_cluster_node_affinity(&(struct cluster_origin){source->volume,
									   source->content,
									   source->storage_class},
						  &affinity, err);
	if (rc)
		return rc;
	/* The account asks for the VolumeSnapshot in its own namespace only. */
	backup_cluster_args_add(&args, (const char *const[]){"backup",
							     "create",
							     "--init",
							     "--device",
							     CLUSTER_DEVICE,
							     "--namespace",
							     names->ns,
							     "--volume-snapshot",
							     names->name,
							     "--volume-id",
							     handle,
							     "--volume-name",
							     volume,
							     "--host",
							     upload->source_ns,
							     "--tag",
							     backup,
							     "--tag",
							     request,
							     "--objects",
							     CLUSTER_OBJECTS_FILE,
							     NULL});
	args_finish(&args, place);
	spec = job_spec(settings, names, place, &args);
	spec.asks_kubernetes = true;
	spec.device_claim = names->name;
	spec.objects = objects;
	spec.node_affinity = affinity;
	spec.owner = owner;
	spec.patch = patch;
	return backup_cluster_job(&spec, ret, err);
}

int mover_download_job(const struct mover_settings *settings, const struct mover_download *download,
		       const struct cluster_names *names, const struct mover_place *place,
		       const json_t *owner, unsigned slot, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *patch = NULL;
	struct cluster_args args = {0};
	struct cluster_job_spec spec;
	int rc = patch_of(settings, true, slot, &patch, err);

	if (rc)
		return rc;
	backup_cluster_args_add(&args,
				(const char *const[]){"backup", "restore", download->backup_id,
						      "--to", CLUSTER_DEVICE, "--overwrite", NULL});
	args_finish(&args, place);
	spec = job_spec(settings, names, place, &args);
	spec.device_claim = names->name;
	spec.owner = owner;
	spec.patch = patch;
	return backup_cluster_job(&spec, ret, err);
}

int mover_forget_job(const struct mover_settings *settings, const struct cluster_names *names,
		     const struct mover_place *place, const char *const *words, json_t **ret,
		     struct cairn_err *err)
{
	kube_auto_json json_t *patch = NULL;
	struct cluster_args args = {0};
	struct cluster_job_spec spec;
	int rc = patch_of(settings, false, 0, &patch, err);

	if (rc)
		return rc;
	backup_cluster_args_add(&args, (const char *const[]){"backup", "forget", "--prune",
							     "--ignore-missing", NULL});
	args_finish(&args, place);
	backup_cluster_args_add(&args, words);
	spec = job_spec(settings, names, place, &args);
	spec.patch = patch;
	return backup_cluster_job(&spec, ret, err);
}
