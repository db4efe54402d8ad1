/* SPDX-License-Identifier: Apache-2.0 */

#include "inventory/backup_metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "backup/cluster/cluster_record.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "net/metrics.h"

struct inventory_backup_metrics {
	struct kube_informer *claims;
};

/* A record and its claim, which is borrowed. */
struct shown_record {
	const json_t *claim;
	struct cluster_record record;
};

struct shown_records {
	struct shown_record *at;
	size_t n;
	size_t room;
	size_t bytes; /* of their text at most */
	uint64_t dropped;
};

static const struct backup_metric {
	const char *name;
	const char *kind;
	const char *help;
	size_t offset;      /* of a uint64_t in the record */
	bool needs_success; /* not shown before the first backup */
} backup_metrics[] = {
	{"last_attempt_timestamp_seconds", "gauge", "When the last attempt ended.",
	 offsetof(struct cluster_record, attempt_s), false},
	{"last_success_timestamp_seconds", "gauge", "When the last backup ended.",
	 offsetof(struct cluster_record, success_s), true},
	{"duration_seconds", "gauge", "How long it took.", offsetof(struct cluster_record, seconds),
	 true},
	{"size_bytes", "gauge", "Size of the volume.", offsetof(struct cluster_record, size), true},
	{"changed_bytes", "gauge", "What had changed, or was allocated.",
	 offsetof(struct cluster_record, changed), true},
	{"read_bytes", "gauge", "What was read.", offsetof(struct cluster_record, read), true},
	{"stored_bytes", "gauge", "What the repository grew by.",
	 offsetof(struct cluster_record, stored), true},
	{"success_total", "counter", "Backups that were made.",
	 offsetof(struct cluster_record, backups), false},
	{"failures_total", "counter", "Attempts that failed.",
	 offsetof(struct cluster_record, failures), false},
	{"fallbacks_total", "counter",
	 "Backups that read more than what changed since an earlier one.",
	 offsetof(struct cluster_record, fallbacks), false},
};

#define N_METRICS    (sizeof(backup_metrics) / sizeof(backup_metrics[0]))
#define N_SAMPLES    (N_METRICS + 2) /* and the two states */
#define SAMPLE_BYTES 100U            /* of a line without the texts of its labels */

/* --- reading --- */

/* The text of a record at most: names, numbers, and labels with every character escaped. */
static size_t text_bytes(const json_t *claim, const struct cluster_record *record)
{
	return N_SAMPLES * (SAMPLE_BYTES + strlen(kube_namespace(claim)) +
			    strlen(kube_name(claim)) + 2 * strlen(record->repository));
}

static bool shown_records_add(struct shown_records *shown, const json_t *claim,
			      const struct cluster_record *record)
{
	size_t bytes = text_bytes(claim, record);
	struct shown_record *grown;

	if (shown->bytes + bytes > INVENTORY_BACKUP_TEXT_MAX)
		return false;
	if (shown->n == shown->room) {
		size_t room = shown->room ? 2 * shown->room : 64;

		grown = cairn_realloc_array(shown->at, room, sizeof(*grown));
		if (!grown)
			return false;
		shown->at = grown;
		shown->room = room;
	}
	shown->at[shown->n++] = (struct shown_record){.claim = claim, .record = *record};
	shown->bytes += bytes;
	return true;
}

static void collect_claim(const json_t *claim, struct shown_records *shown)
{
	json_t *notes = kube_at(claim, "metadata", "annotations");
	struct cluster_record record;
	unsigned of_claim = 0;
	const char *key;
	json_t *value;

	json_object_foreach(notes, key, value)
	{
		if (strncmp(key, CLUSTER_RECORD_PREFIX, strlen(CLUSTER_RECORD_PREFIX)) != 0 ||
		    !backup_cluster_record_parse(json_string_value(value), kube_uid(claim),
						 &record))
			continue;
		if (of_claim++ >= INVENTORY_BACKUP_RECORDS_OF_CLAIM ||
		    !shown_records_add(shown, claim, &record))
			shown->dropped++;
	}
}

void inventory_backup_metrics_trim(json_t *claim)
{
	kube_auto_json json_t *notes = json_incref(kube_at(claim, "metadata", "annotations"));
	kube_auto_json json_t *kept = json_object();
	const char *key;
	json_t *value;

	json_object_foreach(notes, key, value)
	{
		if (strncmp(key, CLUSTER_RECORD_PREFIX, strlen(CLUSTER_RECORD_PREFIX)) == 0 &&
		    json_string_length(value) <= CLUSTER_RECORD_TEXT_MAX)
			(void)json_object_set(kept, key, value);
	}
	kube_informer_trim_metadata(claim);
	json_object_del(claim, "spec");
	json_object_del(claim, "status");
	if (json_object_size(kept) > 0)
		(void)kube_set(claim, NULL, json_incref(kept), "metadata", "annotations");
}

/* --- writing --- */

static void write_head(struct cairn_buf *buf, const char *name, const char *kind, const char *help)
{
	cairn_buf_addf(buf, "# HELP cairn_backup_%s %s\n# TYPE cairn_backup_%s %s\n", name, help,
		       name, kind);
}

static void write_sample(struct cairn_buf *buf, const char *name, const struct shown_record *shown,
			 uint64_t value)
{
	cairn_buf_addf(buf, "cairn_backup_%s{volume=\"", name);
	net_metrics_add_label(buf, kube_namespace(shown->claim));
	cairn_buf_addc(buf, '/');
	net_metrics_add_label(buf, kube_name(shown->claim));
	cairn_buf_adds(buf, "\",repository=\"");
	net_metrics_add_label(buf, shown->record.repository);
	cairn_buf_addf(buf, "\"} %" PRIu64 "\n", value);
}

static void write_numbers(struct cairn_buf *buf, const struct shown_records *shown,
			  const struct backup_metric *metric)
{
	write_head(buf, metric->name, metric->kind, metric->help);
	for (size_t i = 0; i < shown->n; i++) {
		const struct cluster_record *record = &shown->at[i].record;
		uint64_t value;

		if (metric->needs_success && record->success_s == 0)
			continue;
		memcpy(&value, (const char *)record + metric->offset, sizeof(value));
		write_sample(buf, metric->name, &shown->at[i], value);
	}
}

static void write_states(struct cairn_buf *buf, const struct shown_records *shown)
{
	write_head(buf, "last_attempt_success", "gauge", "1 when the last attempt was a success.");
	for (size_t i = 0; i < shown->n; i++)
		write_sample(buf, "last_attempt_success", &shown->at[i], shown->at[i].record.ok);
	write_head(buf, "incremental", "gauge", "1 when only what changed was read.");
	for (size_t i = 0; i < shown->n; i++)
		if (shown->at[i].record.mode != CLUSTER_RECORD_UNKNOWN)
			write_sample(buf, "incremental", &shown->at[i],
				     shown->at[i].record.mode == CLUSTER_RECORD_CHANGED);
}

static void write_number(struct cairn_buf *buf, const char *name, const char *help, uint64_t value)
{
	write_head(buf, name, "gauge", help);
	cairn_buf_addf(buf, "cairn_backup_%s %" PRIu64 "\n", name, value);
}

void inventory_backup_metrics_text(json_t *const *claims, size_t n, bool current,
				   struct cairn_buf *buf)
{
	struct shown_records shown = {0};

	for (size_t i = 0; i < n; i++)
		collect_claim(claims[i], &shown);
	for (size_t i = 0; i < N_METRICS; i++)
		write_numbers(buf, &shown, &backup_metrics[i]);
	write_states(buf, &shown);
	write_number(buf, "records_dropped", "Records on claims that are not shown: too many.",
		     shown.dropped);
	write_number(buf, "records_current", "1 while the records are those of the API server.",
		     current);
	free(shown.at);
}

/* --- watching --- */

int inventory_backup_metrics_new(struct kube_client *client, const char *ns,
				 struct inventory_backup_metrics **ret, struct cairn_err *err)
{
	struct kube_informer_options options = {.resource = &kube_persistentvolumeclaims,
						.ns = ns,
						.trim = inventory_backup_metrics_trim};
	struct inventory_backup_metrics *made = cairn_calloc(1, sizeof(*made));
	int rc;

	if (!made)
		return cairn_err_nomem(err, "metrics of backups");
	rc = kube_informer_new(client, &options, &made->claims, err);
	if (!rc)
		rc = kube_informer_start(made->claims, err);
	if (rc)
		inventory_backup_metrics_free(made);
	else
		*ret = made;
	return rc;
}

void inventory_backup_metrics_free(struct inventory_backup_metrics *metrics)
{
	if (!metrics)
		return;
	kube_informer_free(metrics->claims);
	free(metrics);
}

bool inventory_backup_metrics_ready(const struct inventory_backup_metrics *metrics)
{
	return kube_informer_synced(metrics->claims);
}

void inventory_backup_metrics_write(const struct inventory_backup_metrics *metrics,
				    struct cairn_buf *buf)
{
	json_t **claims = NULL;
	size_t n = 0;

	if (kube_informer_list(metrics->claims, &claims, &n, NULL) != 0)
		return;
	inventory_backup_metrics_text(claims, n, kube_informer_current(metrics->claims), buf);
	kube_objects_free(claims, n);
}
