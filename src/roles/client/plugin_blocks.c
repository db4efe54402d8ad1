/* SPDX-License-Identifier: Apache-2.0 */

/* `kubectl cairn delta` and `kubectl cairn map`. */

#include "roles/client/plugin.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "block/cells.h"
#include "block/extent.h"
#include "cli/command.h"
#include "cli/extent_list.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/progress.h"
#include "kube/kube_client.h"
#include "roles/client/listing_run.h"

/* Long enough for a sidecar to be replaced, short enough for a person who waits. */
#define PATIENCE_MS 30000U

/* The VolumeSnapshots of the arguments. */
struct subject {
	char *ns;
	const char *base; /* NULL: none */
	const char *target;
	char *base_text, *target_text; /* "namespace/name" */
};

static void subject_done(struct subject *subject)
{
	free(subject->ns);
	free(subject->base_text);
	free(subject->target_text);
}

/* Splits "NAMESPACE/NAME"; the namespace must be that of the other argument. */
static int subject_name(struct subject *subject, const char *argument, const char **ret,
			struct cairn_err *err)
{
	const char *slash = strchr(argument, '/');

	*ret = slash ? slash + 1 : argument;
	if (!slash)
		return 0;
	if (subject->ns && (strlen(subject->ns) != (size_t)(slash - argument) ||
			    strncmp(subject->ns, argument, strlen(subject->ns)) != 0))
		return cmd_usage(err, "'%s' is not in namespace '%s', and a delta is of one",
				 argument, subject->ns);
	if (!subject->ns)
		subject->ns = cairn_strndup(argument, (size_t)(slash - argument));
	return subject->ns ? 0 : cairn_err_nomem(err, "namespace");
}

/* The namespace of the kubeconfig's context. */
static int subject_default_namespace(struct subject *subject, struct cairn_err *err)
{
	cairn_cleanup(kube_client_freep) struct kube_client *client = NULL;
	int rc = subject->ns ? 0 : client_plugin_connect(&client, err);

	if (rc || subject->ns)
		return rc;
	subject->ns = cairn_strdup(kube_client_namespace(client));
	return subject->ns ? 0 : cairn_err_nomem(err, "namespace");
}

static int subject_init(struct subject *subject, struct cairn_err *err)
{
	const char *ns = plugin_options.listing.query.namespace_name;
	int rc = 0;

	subject->ns = ns ? cairn_strdup(ns) : NULL;
	if (ns && !subject->ns)
		return cairn_err_nomem(err, "namespace");
	if (plugin_options.base)
		rc = subject_name(subject, plugin_options.base, &subject->base, err);
	if (!rc)
		rc = subject_name(subject, plugin_options.target, &subject->target, err);
	if (!rc)
		rc = subject_default_namespace(subject, err);
	if (rc)
		return rc;
	subject->target_text = cairn_printf("%s/%s", subject->ns, subject->target);
	subject->base_text =
		subject->base ? cairn_printf("%s/%s", subject->ns, subject->base) : NULL;
	if (!subject->target_text || (subject->base && !subject->base_text))
		return cairn_err_nomem(err, "names");
	return 0;
}

static struct cairn_listing_query query_of(const struct subject *subject, bool with_base,
					   struct cmd_progress *progress)
{
	struct cairn_listing_query query = plugin_options.listing.query;

	query.namespace_name = subject->ns;
	query.snapshot = subject->target;
	query.base_snapshot = with_base ? subject->base : NULL;
	query.patience_ms = PATIENCE_MS;
	query.on_retry = cmd_client_flags_told_retry;
	query.on_retry_arg = progress;
	return query;
}

/* Adds what a person at a workstation can do about it. */
static int advise(int rc, struct cairn_err *err)
{
	const struct cairn_client_options *o = &plugin_options.listing.options;
	const struct cairn_err why = *err;

	if (rc == CAIRN_UNAVAILABLE && !o->address)
		return cairn_err_set(err, rc,
				     "%s; outside the cluster, forward the service's port with "
				     "'kubectl port-forward' and name it with --address",
				     why.msg);
	if (rc == CAIRN_INVALID && !o->service_account && !o->token_file)
		return cairn_err_set(err, rc,
				     "%s: --service-account and --service-account-namespace, or "
				     "--token-file",
				     why.msg);
	return rc;
}

static bool blocks_cancelled(void *arg)
{
	(void)arg;
	return cmd_interrupted() != 0;
}

/* --- delta --- */

struct delta {
	const struct subject *subject;
	struct cmd_extent_list list;
	struct cmd_progress progress;
};

/* Prints the document up to its array. */
static int delta_head(const struct delta *delta, uint64_t capacity, struct cairn_err *err)
{
	const struct subject *subject = delta->subject;
	struct cairn_json json;

	if (cmd_options.output != CMD_OUTPUT_JSON)
		return 0;
	cairn_json_init(&json, 1, false);
	cairn_json_object_begin(&json);
	cmd_json_field_string(&json, "namespace", subject->ns);
	cmd_json_field_string(&json, "base", subject->base);
	cmd_json_field_string(&json, "target", subject->target);
	cmd_json_field_u64(&json, "volume_capacity_bytes", capacity);
	cairn_json_key(&json, "block_metadata");
	cairn_json_raw(&json, "[\n", 2);
	return cairn_json_finish(&json, err);
}

static int delta_begin(struct delta *delta, uint64_t capacity, struct cairn_err *err)
{
	int rc = delta_head(delta, capacity, err);

	cmd_extent_list_begin(&delta->list, capacity, false);
	return rc;
}

static int delta_message(void *arg, const struct cairn_listing_info *info,
			 const struct cairn_block *blocks, size_t n, struct cairn_err *err)
{
	struct delta *delta = arg;
	int rc = info->messages == 1 ? delta_begin(delta, info->capacity, err) : 0;

	for (size_t i = 0; i < n && !rc; i++) {
		const struct block_extent extent = {.offset = blocks[i].offset,
						    .length = blocks[i].length};

		cmd_extent_list_add(&delta->list, &extent);
	}
	delta->progress.hooks.report(&delta->progress, info->position, info->capacity);
	return !rc && cmd_out_failed() ? cmd_out_finish(err) : rc;
}

int client_delta_run(struct cairn_err *err)
{
	cairn_cleanup(subject_done) struct subject subject = {0};
	struct delta delta = {.subject = &subject};
	const struct client_watch watch = {
		.message = delta_message, .cancelled = blocks_cancelled, .arg = &delta};
	struct cairn_listing_query query;
	struct cairn_listing_info info;
	int rc = subject_init(&subject, err);

	if (rc)
		return rc;
	query = query_of(&subject, true, &delta.progress);
	cmd_progress_begin(&delta.progress, "listing");
	rc = client_listing_run(&plugin_options.listing.options, &query, &watch, &info, err);
	cmd_progress_end(&delta.progress);
	if (!rc && info.messages == 0)
		rc = delta_begin(&delta, 0, err);
	if (rc)
		return advise(rc, err);
	cmd_extent_list_end(&delta.list, subject.base ? "changed" : "allocated");
	return 0;
}

/* --- map --- */

struct picture {
	struct block_cells cells;
	struct cmd_progress progress;
};

static int picture_begin(void *arg, uint64_t capacity, struct cairn_err *err)
{
	struct picture *picture = arg;

	return cmd_map_cells(&plugin_options.map, capacity, &picture->cells, err);
}

/* A block that changed and is not allocated any more reads as zeros. */
static int picture_segment(void *arg, const struct client_segment *segment, struct cairn_err *err)
{
	struct picture *picture = arg;
	enum block_cell_state state = BLOCK_CELL_UNCHANGED;

	(void)err;
	if (segment->is_changed)
		state = segment->is_allocated ? BLOCK_CELL_CHANGED : BLOCK_CELL_ZEROED;
	block_cells_add(&picture->cells, state, segment->offset, segment->length);
	picture->progress.hooks.report(&picture->progress, segment->offset, picture->cells.size);
	return 0;
}

static int picture_message(void *arg, const struct cairn_listing_info *info,
			   const struct cairn_block *blocks, size_t n, struct cairn_err *err)
{
	int rc = info->messages == 1 ? picture_begin(arg, info->capacity, err) : 0;

	for (size_t i = 0; i < n && !rc; i++) {
		const struct client_segment segment = {.offset = blocks[i].offset,
						       .length = blocks[i].length,
						       .is_allocated = true};

		rc = picture_segment(arg, &segment, err);
	}
	return rc;
}

static int picture_fill(struct picture *picture, const struct subject *subject,
			struct cairn_err *err)
{
	const struct cairn_client_options *options = &plugin_options.listing.options;
	struct cairn_listing_query changed = query_of(subject, true, &picture->progress);
	struct cairn_listing_query allocated = query_of(subject, false, &picture->progress);
	const struct client_pair_watch both = {.begin = picture_begin,
					       .segment = picture_segment,
					       .cancelled = blocks_cancelled,
					       .arg = picture};
	const struct client_watch one = {
		.message = picture_message, .cancelled = blocks_cancelled, .arg = picture};
	struct cairn_listing_info info;

	if (subject->base)
		return client_listing_pair_run(options, &changed, &allocated, &both, err);
	return client_listing_run(options, &allocated, &one, &info, err);
}

int client_map_run(struct cairn_err *err)
{
	cairn_cleanup(subject_done) struct subject subject = {0};
	struct picture picture = {0};
	int rc = subject_init(&subject, err);

	if (rc)
		return rc;
	cmd_progress_begin(&picture.progress, "listing");
	rc = picture_fill(&picture, &subject, err);
	cmd_progress_end(&picture.progress);
	if (rc) {
		rc = advise(rc, err);
	} else {
		const struct cmd_map_subject of = {.base = subject.base_text,
						   .target = subject.target_text};

		rc = cmd_map_print(&plugin_options.map, &of, &picture.cells, err);
	}
	block_cells_done(&picture.cells);
	return rc;
}
