/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_cluster_request.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "backup/cluster/cluster_objects.h"
#include "backup/tags.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "cli/options.h"
#include "kube/object.h"

#define PATCH_MAX     (1U << 20)
#define IMAGE_DEFAULT "localhost/cairn:" CAIRN_VERSION

void role_cluster_request_done(struct role_cluster_request *r)
{
	json_decref(r->patch);
	repo_closep(&r->repo);
}

/* --- arguments of the command in the Job --- */

void role_cluster_request_add(struct role_cluster_request *r, const char *flag, const char *value)
{
	if (!value || r->n_args + 3 > ROLE_CLUSTER_ARGS_MAX)
		return;
	if (flag)
		r->args[r->n_args++] = flag;
	r->args[r->n_args++] = value;
}

static void add_number(struct role_cluster_request *r, const char *flag, uint64_t value,
		       const char *unit)
{
	char *text;

	if (value == 0 || r->n_numbers == sizeof(r->numbers) / sizeof(r->numbers[0]))
		return;
	text = r->numbers[r->n_numbers++];
	snprintf(text, ROLE_CLUSTER_NUMBER_MAX, "%" PRIu64 "%s", value, unit);
	role_cluster_request_add(r, flag, text);
}

void role_cluster_request_add_repository(struct role_cluster_request *r,
					 const struct cmd_repository *repository)
{
	if (repository->retry_ms == UINT64_MAX)
		role_cluster_request_add(r, "--retry", "none");
	else
		add_number(r, "--retry", repository->retry_ms / 1000, "s");
	add_number(r, "--connections", repository->connections, "");
	add_number(r, "--threads", repository->threads, "");
	add_number(r, "--limit-upload", repository->limit_upload, "");
	add_number(r, "--limit-download", repository->limit_download, "");
}

static void add_create(struct role_cluster_request *r)
{
	static const char *const modes[] = {NULL, "allocated", "full"};
	const struct cmd_backup_create *o = r->create;

	if (o->init)
		role_cluster_request_add(r, NULL, "--init");
	role_cluster_request_add(r, "--mode", modes[o->mode]);
	role_cluster_request_add(r, "--parent", o->parent);
	/* The pod's name would differ each time, and `forget` groups by host. */
	role_cluster_request_add(r, "--host", o->host ? o->host : o->device.namespace_name);
	role_cluster_request_add(r, "--volume-name", o->device.volume_name);
	for (size_t i = 0; i < o->tags.n; i++)
		role_cluster_request_add(r, "--tag", o->tags.at[i]);
	role_cluster_request_add(r, "--push-gateway", o->push_gateway);
	role_cluster_request_add(r, "--metadata-address", o->device.address);
	role_cluster_request_add_repository(r, o->repository);
	if (o->compression) {
		snprintf(r->level, sizeof(r->level), "%" PRId64, o->compression);
		role_cluster_request_add(r, "--compression", r->level);
	}
}

/* --- options --- */

static int read_patch(struct role_cluster_request *r, const char *path, struct cairn_err *err)
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

int role_cluster_request_begin(struct role_cluster_request *r, const struct cmd_backup_cluster *c,
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

int role_cluster_request_create(struct role_cluster_request *r,
				const struct cmd_backup_create *options, struct cairn_err *err)
{
	cairn_cleanup(backup_tag_list_done) struct tags tags = {0};
	/* Check now: the Job would report an error minutes later. */
	int rc = backup_tag_list_parse(&options->tags, &tags, err);

	r->create = options;
	if (!rc)
		rc = role_cluster_request_begin(r, &options->cluster, options->repository, err);
	if (rc)
		return rc;
	r->options.kubeconfig = options->device.kubeconfig;
	r->options.context = options->device.context;
	r->options.ns = options->device.namespace_name;
	r->options.snapshot = options->device.snapshot;
	r->options.base = (enum cluster_base)options->base;
	add_create(r);
	return 0;
}
