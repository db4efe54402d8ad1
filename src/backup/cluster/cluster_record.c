/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_record.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/text.h"
#include "kube/object.h"

#define VERSION 1

static const char *const record_modes[] = {"", "changed", "allocated", "full"};

/* The numbers of a record and their names. */
static const struct record_field {
	const char *name;
	size_t offset;
} record_fields[] = {
	{"attempt", offsetof(struct cluster_record, attempt_s)},
	{"success", offsetof(struct cluster_record, success_s)},
	{"seconds", offsetof(struct cluster_record, seconds)},
	{"size_bytes", offsetof(struct cluster_record, size)},
	{"changed_bytes", offsetof(struct cluster_record, changed)},
	{"read_bytes", offsetof(struct cluster_record, read)},
	{"stored_bytes", offsetof(struct cluster_record, stored)},
	{"backups", offsetof(struct cluster_record, backups)},
	{"failures", offsetof(struct cluster_record, failures)},
	{"fallbacks", offsetof(struct cluster_record, fallbacks)},
};

#define N_FIELDS (sizeof(record_fields) / sizeof(record_fields[0]))

static uint64_t *record_number(struct cluster_record *record, const struct record_field *field)
{
	return (uint64_t *)(void *)((char *)record + field->offset);
}

const char *backup_cluster_record_mode_name(enum cluster_record_mode mode)
{
	return record_modes[mode];
}

static enum cluster_record_mode record_mode(const char *name)
{
	for (int i = CLUSTER_RECORD_CHANGED; i <= CLUSTER_RECORD_FULL; i++)
		if (cairn_text_same(name, record_modes[i]))
			return (enum cluster_record_mode)i;
	return CLUSTER_RECORD_UNKNOWN;
}

/* Only what may be shown on a terminal and in a label of a metric. */
static bool is_plain(const char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			return false;
	return true;
}

bool backup_cluster_record_parse(const char *text, const char *uid, struct cluster_record *ret)
{
	kube_auto_json json_t *json = NULL;
	struct cluster_record record = {0};
	const char *repository;
	int64_t version = 0;
	size_t n = text ? strnlen(text, CLUSTER_RECORD_TEXT_MAX + 1) : 0;

	if (n == 0 || n > CLUSTER_RECORD_TEXT_MAX || kube_json_parse(text, n, &json, NULL) != 0)
		return false;
	repository = kube_str(json, "repository");
	if (!kube_i64(json, &version, "version") || version != VERSION ||
	    !cairn_text_same(kube_str(json, "claim"), uid) || !repository ||
	    strlen(repository) >= sizeof(record.repository) || !is_plain(repository))
		return false;
	snprintf(record.repository, sizeof(record.repository), "%s", repository);
	for (size_t i = 0; i < N_FIELDS; i++) {
		int64_t value = 0;

		if (!kube_i64(json, &value, record_fields[i].name) || value < 0)
			return false;
		*record_number(&record, &record_fields[i]) = (uint64_t)value;
	}
	record.ok = kube_is(json, "ok");
	record.mode = record_mode(kube_str(json, "mode"));
	*ret = record;
	return true;
}

int backup_cluster_record_text(const struct cluster_record *record, const char *uid, char **ret,
			       struct cairn_err *err)
{
	struct cluster_record copy = *record;
	kube_auto_json json_t *json =
		json_pack("{s:i,s:s,s:s,s:b,s:s}", "version", VERSION, "claim", uid, "repository",
			  record->repository, "ok", record->ok, "mode", record_modes[record->mode]);

	for (size_t i = 0; json && i < N_FIELDS; i++) {
		uint64_t value = *record_number(&copy, &record_fields[i]);

		if (value > CLUSTER_RECORD_NUMBER_MAX)
			value = CLUSTER_RECORD_NUMBER_MAX;
		json_object_set_new(json, record_fields[i].name, json_integer((json_int_t)value));
	}
	*ret = json ? kube_json_text(json, NULL) : NULL;
	return *ret ? 0 : cairn_err_nomem(err, "record of a backup");
}

void backup_cluster_record_failure(struct cluster_record *record, uint64_t now_s)
{
	record->attempt_s = now_s;
	record->ok = false;
	record->failures++;
}

static uint64_t number_of(const json_t *summary, const char *name)
{
	int64_t value = 0;

	(void)kube_i64(summary, &value, name);
	return value > 0 ? (uint64_t)value : 0;
}

bool backup_cluster_record_success(struct cluster_record *record, const json_t *summary,
				   uint64_t now_s, uint64_t seconds)
{
	enum cluster_record_mode mode = record_mode(kube_str(summary, "mode"));
	bool asked = cairn_text_same(kube_str(summary, "reason"), "asked for");
	bool fell_back = record->backups > 0 && !asked && mode > CLUSTER_RECORD_CHANGED;

	record->attempt_s = record->success_s = now_s;
	record->ok = true;
	record->mode = mode;
	record->seconds = seconds;
	record->size = number_of(summary, "size_bytes");
	record->changed = number_of(summary, "bytes_changed");
	record->read = number_of(summary, "bytes_read");
	record->stored = number_of(summary, "bytes_stored");
	record->backups++;
	record->fallbacks += fell_back;
	return fell_back;
}
