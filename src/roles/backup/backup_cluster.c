/* SPDX-License-Identifier: Apache-2.0 */

/* The backup of a claim and the restore to one: the command, and results as text. */

#include "roles/backup/backup_common.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster.h"
#include "backup/select.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "kube/object.h"
#include "repo/repo_snapshot.h"
#include "roles/backup/backup_cluster_request.h"
#include "roles/backup/backup_image.h"
#include "roles/backup/backup_run.h"

/* --- backup --- */

void role_cluster_print_create(const struct cluster_result *result)
{
	const json_t *s = result->summary;
	const char *id = kube_str(s, "id");
	const char *parent = kube_str(s, "parent");
	const char *mode = kube_str(s, "mode");
	const char *volume = kube_str(s, "volume");
	const char *reason = kube_str(s, "reason");
	int64_t sizes[3] = {0};
	char texts[3][CAIRN_SIZE_TEXT_MAX];
	bool changed = mode && strcmp(mode, "changed") == 0;

	if (cmd_options.quiet)
		return;
	kube_i64(s, &sizes[0], "bytes_changed");
	kube_i64(s, &sizes[1], "bytes_read");
	kube_i64(s, &sizes[2], "bytes_stored");
	for (int i = 0; i < 3; i++)
		cairn_format_size(sizes[i] > 0 ? (uint64_t)sizes[i] : 0, texts[i]);
	cmd_outf("backup %.8s of %s@%s: ", id ? id : "?", volume ? volume : "?", result->snapshot);
	if (changed)
		cmd_outf("incremental on %.8s\n", parent ? parent : "?");
	else
		cmd_outf("full, %s was read: %s\n",
			 mode && strcmp(mode, "full") == 0 ? "everything" : "what is allocated",
			 reason ? reason : "");
	cmd_outf("%s %s, read %s, stored %s%s\n", texts[0], changed ? "changed" : "allocated",
		 texts[1], texts[2], result->base_kept ? "; the snapshot is kept" : "");
}

void role_cluster_print_json(const json_t *summary)
{
	cairn_auto_free char *text = kube_json_text(summary, NULL);

	if (text)
		cmd_outf("%s\n", text);
}

static void print_restored(const struct role_cluster_request *r, const json_t *summary)
{
	const char *id = kube_str(summary, "id");
	const char *volume = kube_str(summary, "volume");
	const char *snapshot = kube_str(summary, "snapshot");

	cmd_outf("restored %s@%s (backup %.8s) to claim %s/%s\n", volume ? volume : "?",
		 snapshot ? snapshot : "?", id ? id : "?", r->options.ns, r->options.claim);
}

static void backup_cluster_print_result(struct role_cluster_request *r,
					const struct cluster_result *result)
{
	role_progress_end(&r->progress);
	if (r->options.direct.endpoint)
		return; /* the backup in this process has printed it */
	if (!result->summary) {
		cmd_note("it is done, but what Job '%s' said of it could not be read", result->job);
		return;
	}
	if (r->create)
		json_object_set_new(result->summary, "base_kept", json_boolean(result->base_kept));
	if (role_json())
		role_cluster_print_json(result->summary);
	else if (r->create)
		role_cluster_print_create(result);
	else if (!cmd_options.quiet)
		print_restored(r, result->summary);
}

/* Without a Job: does its work in this process. */
static int create_here(void *arg, const struct cluster_device *device, struct cairn_err *err)
{
	struct role_cluster_request *r = arg;
	struct cmd_backup_create here = *r->create;

	here.device.device = device->path;
	here.device.snapshot = device->snapshot;
	here.device.objects = device->objects;
	here.device.service_account = here.cluster.service_account;
	if (!here.host)
		here.host = here.device.namespace_name;
	return role_create(NULL, r->repo, &here, &r->progress, NULL, err);
}

static int open_here(struct role_cluster_request *r, struct cairn_err *err)
{
	struct role_open how = {.lock = REPO_LOCK_SHARED, .level = (int)r->create->compression};

	if (!r->options.direct.endpoint)
		return 0;
	return role_repo_open(r->create->repository, &how, &r->repo, err);
}

void role_cluster_push_failure(const struct cmd_backup_create *options, const char *claim)
{
	const char *given = options->device.volume_name;
	cairn_auto_free char *volume =
		given ? cairn_strdup(given)
		      : cairn_printf("%s/%s", options->device.namespace_name, claim);

	if (volume)
		role_metrics_push_failure(options, volume);
}

static int create_in_cluster(const struct cmd_backup_create *options, struct cairn_err *err)
{
	cairn_cleanup(role_cluster_request_done) struct role_cluster_request r = {0};
	cairn_cleanup(backup_cluster_result_done) struct cluster_result result = {0};
	int rc = role_cluster_request_create(&r, options, err);

	if (!rc)
		rc = open_here(&r, err);
	if (rc)
		return rc;
	r.options.direct.run = create_here;
	rc = backup_cluster_backup(&r.options, &result, err);
	role_progress_end(&r.progress);
	if (!rc)
		backup_cluster_print_result(&r, &result);
	return rc;
}

int role_backup_create_cluster(const struct cmd_backup_create *options, struct cairn_err *err)
{
	int rc = create_in_cluster(options, err);

	if (rc)
		role_cluster_push_failure(options, options->cluster.claim);
	return rc;
}

/* --- restore --- */

static int restore_here(void *arg, const struct cluster_device *device, struct cairn_err *err)
{
	const struct role_cluster_request *r = arg;
	struct cmd_backup_restore here = *r->restore;
	cairn_auto_free char *shown = cairn_printf("claim %s/%s", r->options.ns, r->options.claim);

	here.id = r->backup; /* "latest" may change meanwhile */
	here.volume = here.host = here.pool_id = NULL;
	here.to = device->path;
	here.shown = shown;
	here.overwrite = true;
	return role_backup_restore(&here, err);
}

static int describe_here(void *arg, json_t **ret, struct cairn_err *err)
{
	struct role_cluster_request *r = arg;
	cairn_cleanup(role_backup_image_done) struct role_backup_image i = {0};
	struct role_open how = {.lock = REPO_LOCK_NONE};
	struct backup_choice choice = {.name = r->restore->id,
				       .volume = r->restore->volume,
				       .host = r->restore->host,
				       .pool = r->restore->pool_id};
	const char *kubernetes;
	int rc = role_backup_image_find(&i, r->restore->repository, &how, &choice, err);

	if (!rc)
		rc = role_backup_image_load(&i, NULL, err);
	if (rc)
		return rc;
	repo_id_format(&i.snapshot->id, r->backup);
	kubernetes = i.image.metadata.kubernetes;
	*ret = json_pack("{s:I,s:o*}", "size_bytes", (json_int_t)i.image.size, "kubernetes",
			 kubernetes ? json_loads(kubernetes, 0, NULL) : NULL);
	return *ret ? 0 : cairn_err_nomem(err, "description");
}

static void add_choice(const char **args, const struct cmd_backup_restore *options)
{
	if (options->volume) {
		*args++ = "--volume";
		*args++ = options->volume;
	}
	if (options->host) {
		*args++ = "--host";
		*args++ = options->host;
	}
	if (options->pool_id) {
		*args++ = "--pool-id";
		*args++ = options->pool_id;
	}
}

int role_backup_restore_cluster(const struct cmd_backup_restore *options, struct cairn_err *err)
{
	const char *describe[] = {options->id, NULL, NULL, NULL, NULL, NULL, NULL, NULL};
	cairn_cleanup(role_cluster_request_done) struct role_cluster_request r = {.restore =
											  options};
	cairn_cleanup(backup_cluster_result_done) struct cluster_result result = {0};
	int rc = role_cluster_request_begin(&r, &options->cluster, options->repository, err);

	if (rc)
		return rc;
	r.options.kubeconfig = options->kubeconfig;
	r.options.context = options->context;
	r.options.ns = options->namespace_name;
	r.options.mode = options->volume_mode;
	r.options.size = options->size;
	r.options.describe = describe;
	r.options.direct.run = restore_here;
	r.options.direct.describe = describe_here;
	add_choice(describe + 1, options);
	if (options->verify)
		role_cluster_request_add(&r, NULL, "--verify");
	role_cluster_request_add_repository(&r, options->repository);
	rc = backup_cluster_restore(&r.options, &result, err);
	role_progress_end(&r.progress);
	if (!rc)
		backup_cluster_print_result(&r, &result);
	return rc;
}
