/* SPDX-License-Identifier: Apache-2.0 */

/* `cairn backup create --selector`: backups of many claims, and what came of each. */

#include "roles/backup/backup_common.h"

#include <inttypes.h>

#include "backup/cluster/cluster_many.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "cli/progress.h"
#include "kube/object.h"
#include "roles/backup/backup_cluster_request.h"

/* Callbacks change it one at a time. */
struct claims_run {
	const struct cmd_backup_create *options;
	struct cluster_many_sums sums;
	uint64_t bytes_read;
	uint64_t bytes_stored;
	uint64_t begun_ns;
};

/* Begins the line of an event about a claim. */
static void claim_event_begin(const struct claims_run *run, struct cairn_json *json,
			      const char *event, const char *claim, const char *node)
{
	role_event_begin(json, event);
	cmd_json_field_string(json, "namespace", run->options->device.namespace_name);
	cmd_json_field_string(json, "claim", claim);
	if (node)
		cmd_json_field_string(json, "node", node);
}

static void claims_begin(void *arg, const char *claim, const char *node)
{
	struct claims_run *run = arg;
	struct cairn_json json;

	if (cmd_options.quiet)
		return;
	if (!role_json()) {
		cmd_note("%s: begins%s%s", claim, node ? " on node " : "", node ? node : "");
		return;
	}
	claim_event_begin(run, &json, "begin", claim, node);
	(void)role_event_end(&json, NULL);
}

static void claims_remark(void *arg, const char *claim, const char *text)
{
	struct claims_run *run = arg;
	struct cairn_json json;

	if (!role_json()) {
		cmd_note("%s: %s", claim, text);
		return;
	}
	claim_event_begin(run, &json, "remark", claim, NULL);
	cmd_json_field_string(&json, "text", text);
	(void)role_event_end(&json, NULL);
}

/* The Job's own summary, with the claim. Without its log only the claim is known. */
static void print_made(struct claims_run *run, const struct cluster_outcome *outcome)
{
	const struct cluster_result *result = outcome->result;
	kube_auto_json json_t *summary = result->summary ? json_incref(result->summary)
							 : json_pack("{s:s}", "event", "summary");
	int64_t read = 0;
	int64_t stored = 0;

	kube_i64(summary, &read, "bytes_read");
	kube_i64(summary, &stored, "bytes_stored");
	run->bytes_read += read > 0 ? (uint64_t)read : 0;
	run->bytes_stored += stored > 0 ? (uint64_t)stored : 0;
	if (!result->summary)
		claims_remark(run, outcome->claim,
			      "it is done, but what the Job said of it could not be read");
	else if (!role_json())
		role_cluster_print_create(result);
	if (!role_json() || !summary)
		return;
	json_object_set_new(summary, "namespace", json_string(run->options->device.namespace_name));
	json_object_set_new(summary, "claim", json_string(outcome->claim));
	if (outcome->node)
		json_object_set_new(summary, "node", json_string(outcome->node));
	json_object_set_new(summary, "base_kept", json_boolean(result->base_kept));
	role_cluster_print_json(summary);
}

static void print_failure(const struct claims_run *run, const struct cluster_outcome *outcome)
{
	struct cairn_json json;

	if (!role_json()) {
		cmd_note("%s is not backed up: %s", outcome->claim, outcome->failure->msg);
		return;
	}
	claim_event_begin(run, &json, "failure", outcome->claim, outcome->node);
	cmd_json_field_u64(&json, "code", (uint64_t)-outcome->failure->code);
	cmd_json_field_string(&json, "error", outcome->failure->msg);
	cmd_json_field_u64(&json, "elapsed_ms", outcome->elapsed_ns / CAIRN_NS_PER_MS);
	(void)role_event_end(&json, NULL);
}

static void print_skipped(const struct claims_run *run, const struct cluster_outcome *outcome)
{
	struct cairn_json json;

	if (!role_json()) {
		cmd_note("%s is skipped: %s", outcome->claim, outcome->skipped);
		return;
	}
	claim_event_begin(run, &json, "skipped", outcome->claim, outcome->node);
	cmd_json_field_string(&json, "reason", outcome->skipped);
	(void)role_event_end(&json, NULL);
}

static void claims_end(void *arg, const struct cluster_outcome *outcome)
{
	struct claims_run *run = arg;

	if (outcome->result)
		print_made(run, outcome);
	else if (outcome->skipped)
		print_skipped(run, outcome);
	else
		print_failure(run, outcome);
	if (outcome->failure && outcome->failure->code != CAIRN_CANCELLED)
		role_cluster_push_failure(run->options, outcome->claim);
}

static void claims_report(const struct claims_run *run)
{
	const struct role_report report = {
		.made = run->sums.made,
		.failed = run->sums.failed,
		.skipped = run->sums.skipped,
		.skips = true,
		.bytes_read = run->bytes_read,
		.bytes_stored = run->bytes_stored,
		.elapsed_ms = (cairn_monotonic_ns() - run->begun_ns) / CAIRN_NS_PER_MS,
	};
	uint64_t all = report.made + report.failed + report.skipped;
	char read[CAIRN_SIZE_TEXT_MAX];
	char stored[CAIRN_SIZE_TEXT_MAX];
	char time[CMD_DURATION_TEXT_MAX];

	if (all == 0 || (cmd_options.quiet && !role_json()))
		return;
	if (role_json()) {
		role_report_event(&report);
		return;
	}
	cmd_outf("%" PRIu64 " of %" PRIu64 " claims backed up, %" PRIu64 " failed, %" PRIu64
		 " skipped: read %s, stored %s in %s\n",
		 report.made, all, report.failed, report.skipped,
		 cairn_format_size(report.bytes_read, read),
		 cairn_format_size(report.bytes_stored, stored),
		 cmd_duration_text(report.elapsed_ms, time));
}

int role_backup_create_claims(const struct cmd_backup_create *options, struct cairn_err *err)
{
	cairn_cleanup(role_cluster_request_done) struct role_cluster_request r = {0};
	struct claims_run run = {.options = options, .begun_ns = cairn_monotonic_ns()};
	struct cluster_many many = {
		.selector = options->selector,
		.jobs = options->jobs,
		.jobs_per_node = options->jobs_per_node,
		.on_begin = claims_begin,
		.on_remark = claims_remark,
		.on_end = claims_end,
		.arg = &run,
	};
	int rc = role_cluster_request_create(&r, options, err);

	if (rc)
		return rc;
	rc = backup_cluster_backup_many(&r.options, &many, &run.sums, err);
	role_progress_end(&r.progress);
	claims_report(&run);
	return rc;
}
