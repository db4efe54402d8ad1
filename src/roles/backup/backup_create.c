/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include <fcntl.h>
#include <stdio.h>

#include "backup/create.h"
#include "backup/image_metadata.h"
#include "backup/pushgateway.h"
#include "backup/select.h"
#include "backup/source.h"
#include "backup/source_device.h"
#include "backup/source_file.h"
#include "backup/tags.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/progress.h"
#include "pool/pool.h"
#include "repo/repo_snapshot.h"
#include "roles/backup/backup_run.h"

#define PROGRAM "cairn " CAIRN_VERSION

static int backup_create_print_json(const struct backup_source *source,
				    const struct backup_result *result, uint64_t elapsed_ns,
				    struct cairn_err *err)
{
	char id[REPO_ID_TEXT_MAX];
	char parent[REPO_ID_TEXT_MAX];
	struct cairn_json json;

	role_event_begin(&json, "summary");
	cmd_json_field_string(&json, "id", repo_id_format(&result->id, id));
	cmd_json_field_string(&json, "volume", source->volume_name);
	cmd_json_field_string(&json, "volume_id", source->volume_id);
	cmd_json_field_string(&json, "pool_id", source->pool_id);
	cmd_json_field_string(&json, "snapshot", source->snapshot_name);
	cmd_json_field_string(&json, "snapshot_id", source->snapshot_id);
	cmd_json_field_string(&json, "mode", backup_mode_name(result->mode));
	cmd_json_field_string(&json, "reason", result->reason);
	cmd_json_field_string(&json, "parent",
			      result->has_parent ? repo_id_format(&result->parent, parent) : NULL);
	cmd_json_field_u64(&json, "size_bytes", result->size);
	cmd_json_field_u64(&json, "bytes_changed", result->bytes_changed);
	cmd_json_field_u64(&json, "bytes_read", result->bytes_read);
	cmd_json_field_u64(&json, "bytes_new", result->bytes_new);
	cmd_json_field_u64(&json, "bytes_stored", result->bytes_stored);
	cmd_json_field_u64(&json, "bytes_merged", result->bytes_merged);
	cmd_json_field_u64(&json, "chunks", result->chunks);
	cmd_json_field_u64(&json, "chunks_new", result->chunks_new);
	cmd_json_field_u64(&json, "elapsed_ms", elapsed_ns / CAIRN_NS_PER_MS);
	return role_event_end(&json, err);
}

static void backup_create_print_text(const struct backup_source *source,
				     const struct backup_result *result)
{
	char id[ROLE_SHORT_MAX];
	char parent[ROLE_SHORT_MAX];
	char changed[CAIRN_SIZE_TEXT_MAX];
	char read[CAIRN_SIZE_TEXT_MAX];
	char stored[CAIRN_SIZE_TEXT_MAX];

	if (cmd_options.quiet)
		return;
	cmd_outf("backup %s of %s@%s: ", role_short_id(&result->id, id), source->volume_name,
		 source->snapshot_name);
	if (result->mode == BACKUP_CHANGED)
		cmd_outf("incremental on %s (%s@%s)\n", role_short_id(&result->parent, parent),
			 source->volume_name, result->parent_snapshot);
	else
		cmd_outf("full, %s was read: %s\n",
			 result->mode == BACKUP_ALLOCATED ? "what is allocated" : "everything",
			 result->reason);
	cmd_outf("%s %s, read %s, stored %s\n", cairn_format_size(result->bytes_changed, changed),
		 result->mode == BACKUP_CHANGED ? "changed" : "allocated",
		 cairn_format_size(result->bytes_read, read),
		 cairn_format_size(result->bytes_stored, stored));
}

void role_create_push(const struct cmd_backup_create *o, const char *volume,
		      const struct backup_result *result, uint64_t elapsed_ns)
{
	struct backup_source source = {.volume_name = volume};
	struct cairn_err why = {0};

	/* The backup exists, so metrics that could not be sent are only a note. */
	if (o->push_gateway &&
	    backup_push_metrics(o->push_gateway, &source, result, elapsed_ns, &why) != 0)
		cmd_note("the metrics were not sent: %s", why.msg);
}

static int backup_create_open_device(const struct cmd_backup_create *o, const char *objects,
				     const struct role_progress *progress,
				     struct backup_source **ret, struct cairn_err *err)
{
	const struct cmd_backup_device *d = &o->device;
	struct source_device_spec spec = {
		.device = d->device,
		.namespace_name = d->namespace_name,
		.snapshot = d->snapshot,
		.volume_id = d->volume_id,
		.snapshot_id = d->snapshot_id,
		.volume_name = d->volume_name,
		.objects = objects,
		.client = {.size = sizeof(spec.client),
			   .kubeconfig = d->kubeconfig,
			   .context = d->context,
			   .address = d->address,
			   .ca_file = d->ca_file,
			   .token_file = d->token_file,
			   .service_account = d->service_account,
			   .service_account_namespace =
				   d->service_account ? d->namespace_name : NULL},
		.progress = progress->hooks,
	};

	return backup_source_device(&spec, ret, err);
}

static int backup_create_open_file(const struct cmd_backup_create *o, struct backup_source **ret,
				   struct cairn_err *err)
{
	struct source_file_spec spec = {
		.path = o->file ? o->file : o->device.device,
		.device = !o->file,
		.name = o->device.volume_name,
		.host = o->host,
		.changes = o->changes,
		.live = o->live,
	};

	return backup_source_file(&spec, ret, err);
}

static int open_source(struct pool *pool, const struct cmd_backup_create *o,
		       const struct store_progress *comparing, const struct role_progress *progress,
		       struct backup_source **ret, struct cairn_err *err)
{
	const char *path = o->device.objects ? NULL : o->device.objects_file;
	cairn_auto_free char *objects = NULL;
	size_t n;
	int rc = 0;

	if (o->snapshot)
		return backup_source_pool(pool, o->snapshot, comparing, ret, err);
	if (o->file || !o->device.namespace_name)
		return backup_create_open_file(o, ret, err);
	if (path)
		rc = cairn_file_read(AT_FDCWD, path, METADATA_MAX, &objects, &n, err);
	return rc ? rc
		  : backup_create_open_device(o, path ? objects : o->device.objects, progress, ret,
					      err);
}

int role_create(struct pool *pool, struct repo *repo, const struct cmd_backup_create *o,
		struct role_progress *progress, struct role_item *item, struct cairn_err *err)
{
	cairn_cleanup(backup_source_closep) struct backup_source *source = NULL;
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *parent = NULL;
	struct cmd_progress comparing;
	struct backup_create_options options = {
		.best = (enum backup_mode)o->mode,
		.hostname = o->host,
		.version = PROGRAM,
		.fixed = o->fixed,
		.segment = o->segment,
		.threads = (unsigned)o->repository->threads,
		.talk = {.say = role_say, .arg = progress},
		.progress = progress->hooks,
	};
	cairn_cleanup(backup_tag_list_done) struct tags tags = {0};
	struct backup_result result;
	uint64_t begun = cairn_monotonic_ns();
	int rc;

	options.tags = &tags;
	rc = backup_tag_list_parse(&o->tags, &tags, err);
	if (rc)
		return rc;
	cmd_progress_begin(&comparing, "comparing");
	rc = open_source(pool, o, &comparing.hooks, progress, &source, err);
	if (!rc && item && !item->recorded)
		item->recorded = cairn_strdup(source->volume_name);
	if (!rc && o->parent) {
		rc = backup_select(repo, &(struct backup_choice){.name = o->parent}, &parent, err);
		options.parent = parent;
	}
	if (!rc)
		rc = backup_create(repo, source, &options, &result, err);
	cmd_progress_end(&comparing);
	role_progress_end(progress);
	if (rc)
		return rc;
	if (item) {
		item->result = result;
		item->elapsed_ns = cairn_monotonic_ns() - begun;
	}
	if (role_json())
		(void)backup_create_print_json(source, &result, cairn_monotonic_ns() - begun,
					       item ? &item->unsaid : NULL);
	else
		backup_create_print_text(source, &result);
	if (!o->repository->object_lock)
		role_create_push(o, source->volume_name, &result, cairn_monotonic_ns() - begun);
	return 0;
}
