/* SPDX-License-Identifier: Apache-2.0 */

/* Backups of claims and restores to them: turns flags into options, and results into text. */

#include "roles/backup/backup_common.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster.h"
#include "backup/cluster/cluster_objects.h"
#include "backup/select.h"
#include "backup/tags.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "kube/object.h"
#include "repo/repo_snapshot.h"
#include "roles/backup/backup_image.h"

#define PATCH_MAX     (1U << 20)
#define ARGS_MAX      (40 + 2 * CAIRN_STRINGS_MAX)
#define NUMBER_MAX    24
#define IMAGE_DEFAULT "localhost/cairn:" CAIRN_VERSION

struct request {
	const struct cmd_backup_create *create;   /* one of these two */
	const struct cmd_backup_restore *restore; /* is NULL */
	struct role_progress progress;
	struct cluster_options options;
	json_t *patch;
	struct repo *repo;             /* for a backup without a Job */
	char backup[REPO_ID_TEXT_MAX]; /* the backup to restore without a Job */
	const char *args[ARGS_MAX];
	unsigned n_args;
	char numbers[4][NUMBER_MAX];
	unsigned n_numbers;
};

static void request_done(struct request *r)
{
	json_decref(r->patch);
	repo_closep(&r->repo);
}

/* --- arguments of the command in the Job --- */

static void backup_cluster_add(struct request *r, const char *flag, const char *value)
{
	if (!value || r->n_args + 3 > ARGS_MAX)
		return;
	if (flag)
		r->args[r->n_args++] = flag;
	r->args[r->n_args++] = value;
}

static void backup_cluster_add_number(struct request *r, const char *flag, uint64_t value,
				      const char *unit)
{
	char *text;

	if (value == 0 || r->n_numbers == sizeof(r->numbers) / sizeof(r->numbers[0]))
		return;
	text = r->numbers[r->n_numbers++];
	snprintf(text, NUMBER_MAX, "%" PRIu64 "%s", value, unit);
	backup_cluster_add(r, flag, text);
}

static void add_repository(struct request *r, const struct cmd_repository *repository)
{
	if (repository->retry_ms == UINT64_MAX)
		backup_cluster_add(r, "--retry", "none");
	else
		backup_cluster_add_number(r, "--retry", repository->retry_ms / 1000, "s");
	backup_cluster_add_number(r, "--connections", repository->connections, "");
	backup_cluster_add_number(r, "--threads", repository->threads, "");
	backup_cluster_add_number(r, "--limit-upload", repository->limit_upload, "");
	backup_cluster_add_number(r, "--limit-download", repository->limit_download, "");
}

static void add_create(struct request *r)
{
	static const char *const modes[] = {NULL, "allocated", "full"};
	const struct cmd_backup_create *o = r->create;
	char *level = r->numbers[3];

	backup_cluster_add(r, "--mode", modes[o->mode]);
	backup_cluster_add(r, "--parent", o->parent);
	/* The pod's name would differ each time, and `forget` groups by host. */
	backup_cluster_add(r, "--host", o->host ? o->host : o->device.namespace_name);
	backup_cluster_add(r, "--volume-name", o->device.volume_name);
	for (size_t i = 0; i < o->tags.n; i++)
		backup_cluster_add(r, "--tag", o->tags.at[i]);
	backup_cluster_add(r, "--push-gateway", o->push_gateway);
	backup_cluster_add(r, "--metadata-address", o->device.address);
	add_repository(r, o->repository);
	if (o->compression) {
		snprintf(level, NUMBER_MAX, "%" PRId64, o->compression);
		backup_cluster_add(r, "--compression", level);
	}
}

/* --- options --- */

static int read_patch(struct request *r, const char *path, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	size_t n;
	int rc = path ? cairn_file_read(AT_FDCWD, path, PATCH_MAX, &text, &n, err) : 0;

	if (!rc && path)
		rc = kube_json_parse(text, n, &r->patch, err);
	if (rc)
		return cairn_err_wrap(err, "patch of the Job");
	r->options.patch = r->patch;
	return 0;
}

/* The name of our own pod, which the downward API sets in the environment. */
static const char *own_pod(void)
{
	const char *variable = getenv("CAIRN_POD");

	return variable && *variable ? variable : NULL;
}

static const char *image_of(const struct cmd_backup_cluster *c)
{
	const char *variable = getenv("CAIRN_IMAGE");

	if (c->image)
		return c->image;
	if (variable && *variable)
		return variable;
	return own_pod() ? NULL : IMAGE_DEFAULT;
}

static int backup_cluster_begin(struct request *r, const struct cmd_backup_cluster *c,
				const struct cmd_repository *repository, struct cairn_err *err)
{
	role_progress_begin(&r->progress);
	r->options = (struct cluster_options){
		.claim = c->claim,
		.snapshot_class = c->snapshot_class,
		.storage_class = c->storage_class,
		.image = image_of(c),
		.pod = own_pod(),
		.service_account = c->service_account,
		.secret = c->secret,
		.ca_key = c->secret_ca,
		.repository = c->repository_claim ? CLUSTER_REPOSITORY : repository->location,
		.repository_claim = c->repository_claim,
		.args = r->args,
		.direct = {.endpoint = c->endpoint, .arg = r},
		.ready_ms = c->ready_ms,
		.timeout_ms = c->timeout_ms,
		.lock_ms = cmd_options.lock_wait_ms,
		.talk = {.say = role_say, .arg = &r->progress},
		.progress = r->progress.hooks,
	};
	return read_patch(r, c->job_patch, err);
}

/* --- backup --- */

static void print_create(const struct cluster_result *result)
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

/* Prints the Job's own summary, for programs. */
static void backup_cluster_print_json(const json_t *summary)
{
	cairn_auto_free char *text = kube_json_text(summary, NULL);

	if (text)
		cmd_outf("%s\n", text);
}

static void print_restored(const struct request *r, const json_t *summary)
{
	const char *id = kube_str(summary, "id");
	const char *volume = kube_str(summary, "volume");
	const char *snapshot = kube_str(summary, "snapshot");

	cmd_outf("restored %s@%s (backup %.8s) to claim %s/%s\n", volume ? volume : "?",
		 snapshot ? snapshot : "?", id ? id : "?", r->options.ns, r->options.claim);
}

static void backup_cluster_print_result(struct request *r, const struct cluster_result *result)
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
		backup_cluster_print_json(result->summary);
	else if (r->create)
		print_create(result);
	else if (!cmd_options.quiet)
		print_restored(r, result->summary);
}

/* Without a Job: does its work in this process. */
static int create_here(void *arg, const struct cluster_device *device, struct cairn_err *err)
{
	struct request *r = arg;
	struct cmd_backup_create here = *r->create;

	here.device.device = device->path;
	here.device.snapshot = device->snapshot;
	here.device.objects = device->objects;
	here.device.service_account = here.cluster.service_account;
	if (!here.host)
		here.host = here.device.namespace_name;
	return role_create(NULL, r->repo, &here, &r->progress, NULL, err);
}

static int open_here(struct request *r, struct cairn_err *err)
{
	struct role_open how = {.lock = REPO_LOCK_SHARED, .level = (int)r->create->compression};

	if (!r->options.direct.endpoint)
		return 0;
	return role_repo_open(r->create->repository, &how, &r->repo, err);
}

int role_backup_create_cluster(const struct cmd_backup_create *options, struct cairn_err *err)
{
	cairn_cleanup(request_done) struct request r = {.create = options};
	cairn_cleanup(backup_cluster_result_done) struct cluster_result result = {0};
	cairn_cleanup(backup_tag_list_done) struct tags tags = {0};
	/* Check now: the Job would report an error minutes later. */
	int rc = backup_tag_list_parse(&options->tags, &tags, err);

	if (!rc)
		rc = backup_cluster_begin(&r, &options->cluster, options->repository, err);
	if (!rc)
		rc = open_here(&r, err);
	if (rc)
		return rc;
	r.options.kubeconfig = options->device.kubeconfig;
	r.options.context = options->device.context;
	r.options.ns = options->device.namespace_name;
	r.options.snapshot = options->device.snapshot;
	r.options.base = (enum cluster_base)options->base;
	r.options.direct.run = create_here;
	add_create(&r);
	rc = backup_cluster_backup(&r.options, &result, err);
	role_progress_end(&r.progress);
	if (!rc)
		backup_cluster_print_result(&r, &result);
	return rc;
}

/* --- restore --- */

static int restore_here(void *arg, const struct cluster_device *device, struct cairn_err *err)
{
	const struct request *r = arg;
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
	struct request *r = arg;
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
	cairn_cleanup(request_done) struct request r = {.restore = options};
	cairn_cleanup(backup_cluster_result_done) struct cluster_result result = {0};
	int rc = backup_cluster_begin(&r, &options->cluster, options->repository, err);

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
		backup_cluster_add(&r, NULL, "--verify");
	add_repository(&r, options->repository);
	rc = backup_cluster_restore(&r.options, &result, err);
	role_progress_end(&r.progress);
	if (!rc)
		backup_cluster_print_result(&r, &result);
	return rc;
}
