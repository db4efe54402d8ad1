/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_journal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "backup/cluster/cluster.h"
#include "backup/cluster/cluster_record.h"
#include "backup/cluster/cluster_run.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/num.h"
#include "base/text.h"
#include "kube/event.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define COMPONENT "cairn.dev/backup"
#define ACTION    "Backup"
#define GRACE_MS  5000U
#define CALL_MS   10000U
#define TRIES     5 /* others may change the claim meanwhile */
#define KEY_MAX   (sizeof(CLUSTER_RECORD_PREFIX) + CLUSTER_KEY_MAX)

static uint64_t journal_seconds(const struct cluster_journal *journal)
{
	return (cairn_monotonic_ns() - journal->begun_ns) / CAIRN_NS_PER_SEC;
}

/* The repository as the user named it. A location may have a password in it, if there is no Job. */
static const char *journal_repository(const struct cluster_options *o)
{
	if (o->repository_claim)
		return o->repository_claim;
	if (o->repository && !strchr(o->repository, '@'))
		return o->repository;
	return o->secret ? o->secret : "";
}

void backup_cluster_journal_begin(struct cluster_journal *journal, struct cluster_run *run)
{
	const struct cluster_options *o = run->options;
	struct cairn_err why = {0};

	journal->run = run;
	journal->begun_ns = cairn_monotonic_ns();
	if (o->events_refused && atomic_load(o->events_refused))
		return;
	if (kube_recorder_new(run->kube, COMPONENT, NULL, &journal->recorder, &why) != 0)
		backup_say(&o->talk, "no Events are written: %s", why.msg);
}

void backup_cluster_journal_done(struct cluster_journal *journal)
{
	const struct cluster_options *o;
	struct kube_recorder_stats stats;
	bool is_first;

	if (!journal->recorder)
		return;
	o = journal->run->options;
	kube_recorder_stop(journal->recorder, GRACE_MS);
	kube_recorder_stats(journal->recorder, &stats);
	kube_recorder_free(journal->recorder);
	journal->recorder = NULL;
	is_first = stats.failed > 0 &&
		   (!o->events_refused || !atomic_exchange(o->events_refused, true));
	if (is_first)
		backup_say(&o->talk, "Events are not written: the right to create events of "
				     "events.k8s.io may be missing");
}

/* --- the record --- */

/* Changes the record in `claim`; *ret_fell_back and *ret_before are of a backup. */
static int journal_change(struct cluster_journal *journal, const json_t *claim, bool ok,
			  const json_t *summary, char **ret_text, bool *ret_fell_back,
			  enum cluster_record_mode *ret_before, struct cairn_err *err)
{
	const struct cluster_run *run = journal->run;
	struct cluster_record record = {0};
	uint64_t now = cairn_now_ns() / CAIRN_NS_PER_SEC;
	char key[KEY_MAX];

	snprintf(key, sizeof(key), CLUSTER_RECORD_PREFIX "%s", run->names.repository);
	if (!backup_cluster_record_parse(kube_annotation(claim, key), kube_uid(claim), &record))
		record = (struct cluster_record){0};
	snprintf(record.repository, sizeof(record.repository), "%.127s",
		 journal_repository(run->options));
	*ret_before = record.mode;
	if (ok)
		*ret_fell_back = backup_cluster_record_success(&record, summary, now,
							       journal_seconds(journal));
	else
		backup_cluster_record_failure(&record, now);
	return backup_cluster_record_text(&record, kube_uid(claim), ret_text, err);
}

/* With the version that was read: another command may write its record at the same time. */
static int journal_patch(struct cluster_journal *journal, const json_t *claim, const char *text,
			 struct cairn_err *err)
{
	const struct cluster_run *run = journal->run;
	struct kube_call how = {.timeout_ms = CALL_MS};
	char key[KEY_MAX];
	kube_auto_json json_t *patch = NULL;

	snprintf(key, sizeof(key), CLUSTER_RECORD_PREFIX "%s", run->names.repository);
	patch = json_pack("{s:{s:s,s:{s:s}}}", "metadata", "resourceVersion",
			  kube_resource_version(claim), "annotations", key, text);
	if (!patch)
		return cairn_err_nomem(err, "record of a backup");
	return kube_patch(run->kube,
			  KUBE_REF(&kube_persistentvolumeclaims, run->names.ns, run->names.claim),
			  KUBE_PATCH_MERGE, patch, &how, NULL, err);
}

static void journal_record(struct cluster_journal *journal, const json_t *claim, bool ok,
			   const json_t *summary, bool *ret_fell_back,
			   enum cluster_record_mode *ret_before)
{
	const struct cluster_run *run = journal->run;
	struct kube_call how = {.timeout_ms = CALL_MS};
	struct cairn_err why = {0};
	int rc = CAIRN_ABORTED;

	for (int i = 0; i < TRIES && rc == CAIRN_ABORTED; i++) {
		kube_auto_json json_t *now = NULL;
		cairn_auto_free char *text = NULL;

		rc = kube_get(
			run->kube,
			KUBE_REF(&kube_persistentvolumeclaims, run->names.ns, run->names.claim),
			&how, &now, &why);
		if (!rc && !cairn_text_same(kube_uid(now), kube_uid(claim)))
			return; /* it was deleted and created again */
		if (!rc)
			rc = journal_change(journal, now, ok, summary, &text, ret_fell_back,
					    ret_before, &why);
		if (!rc)
			rc = journal_patch(journal, now, text, &why);
	}
	if (rc && rc != CAIRN_NOT_FOUND)
		backup_say(&run->options->talk, "the claim's record of backups is not written: %s",
			   why.msg);
}

/* --- the Events --- */

void backup_cluster_journal_started(struct cluster_journal *journal, const json_t *object)
{
	kube_event_tell(journal->recorder, object, false, "BackupStarted", ACTION,
			"Backup of claim %s to %s started", journal->run->names.claim,
			journal_repository(journal->run->options));
}

static void tell_finished(struct cluster_journal *journal, const json_t *object,
			  const json_t *summary)
{
	const char *id = kube_str(summary, "id");
	const char *mode = kube_str(summary, "mode");
	int64_t bytes[2] = {0};
	char texts[2][CAIRN_SIZE_TEXT_MAX];

	kube_i64(summary, &bytes[0], "bytes_read");
	kube_i64(summary, &bytes[1], "bytes_stored");
	for (int i = 0; i < 2; i++)
		cairn_format_size(bytes[i] > 0 ? (uint64_t)bytes[i] : 0, texts[i]);
	if (!summary)
		kube_event_tell(journal->recorder, object, false, "BackupFinished", ACTION,
				"Backup of claim %s finished", journal->run->names.claim);
	else
		kube_event_tell(journal->recorder, object, false, "BackupFinished", ACTION,
				"Backup %.8s of claim %s finished (%s): read %s, stored %s",
				id ? id : "?", journal->run->names.claim, mode ? mode : "?",
				texts[0], texts[1]);
}

void backup_cluster_journal_finished(struct cluster_journal *journal, const json_t *claim,
				     const json_t *snapshot, const json_t *summary)
{
	enum cluster_record_mode before = CLUSTER_RECORD_UNKNOWN;
	const char *reason = kube_str(summary, "reason");
	bool fell_back = false;

	journal_record(journal, claim, true, summary, &fell_back, &before);
	/* A driver that never reports changes falls back each time, which is not a warning. */
	if (fell_back)
		kube_event_tell(journal->recorder, claim, before == CLUSTER_RECORD_CHANGED,
				"BackupFellBack", ACTION, "More than what changed was read: %s",
				reason ? reason : "?");
	tell_finished(journal, claim, summary);
	if (snapshot)
		tell_finished(journal, snapshot, summary);
}

void backup_cluster_journal_failed(struct cluster_journal *journal, const json_t *claim,
				   const json_t *snapshot, const struct cairn_err *why)
{
	enum cluster_record_mode before;
	bool fell_back;

	journal_record(journal, claim, false, NULL, &fell_back, &before);
	kube_event_tell(journal->recorder, claim, true, "BackupFailed", ACTION, "%s", why->msg);
	if (snapshot)
		kube_event_tell(journal->recorder, snapshot, true, "BackupFailed", ACTION, "%s",
				why->msg);
}
