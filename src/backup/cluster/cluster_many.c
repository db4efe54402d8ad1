/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_many.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "backup/cluster/cluster.h"
#include "backup/cluster/cluster_run.h"
#include "backup/cluster/cluster_schedule.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/wait.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define CHECK_MS 200U
#define CALL_MS  20000U

struct many {
	const struct cluster_options *options;
	const struct cluster_many *how;
	struct cluster_run lister; /* without a claim: only its connection is used */
	atomic_bool events_refused;
	pthread_mutex_t lock; /* guards the following */
	pthread_cond_t changed;
	struct cluster_schedule schedule;
	struct cluster_many_sums sums;
	struct cairn_err first; /* failure; code 0: none */
	const char *first_claim;
};

/* The remarks of one run. */
struct many_voice {
	struct many *many;
	const char *claim;
};

static void many_done(struct many *m)
{
	backup_cluster_run_end(&m->lister);
	backup_cluster_schedule_done(&m->schedule);
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
}

static void many_say(void *arg, const char *text)
{
	const struct many_voice *voice = arg;

	cairn_scoped_lock(&voice->many->lock);
	voice->many->how->on_remark(voice->many->how->arg, voice->claim, text);
}

static bool many_cancelled(const struct many *m)
{
	return backup_cancelled(&m->options->progress);
}

/* --- finding the claims --- */

/* A volume that cannot be read is an error of its claim, which finds it again. */
static int find_nodes(struct many *m, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < m->schedule.n && !rc; i++) {
		const struct cluster_target *target = &m->schedule.targets[i];
		kube_auto_json json_t *volume = NULL;
		struct cairn_err why = {0};

		if (target->state != CLUSTER_TARGET_WAITS)
			continue;
		rc = backup_cluster_get(&m->lister,
					KUBE_REF(&kube_persistentvolumes, NULL, target->volume),
					&volume, &why);
		if (rc == CAIRN_CANCELLED)
			return cairn_err_set(err, rc, "%s", why.msg);
		rc = rc ? 0
			: backup_cluster_schedule_place(&m->schedule, i,
							backup_cluster_volume_node(volume), err);
	}
	return rc;
}

static int find_claims(struct many *m, struct cairn_err *err)
{
	const char *ns = m->options->ns;
	kube_auto_json json_t *list = NULL;
	int rc = backup_cluster_list(&m->lister, &kube_persistentvolumeclaims, m->how->selector,
				     &list, err);

	if (rc)
		return cairn_err_wrap(err, "claims of namespace '%s'", ns);
	rc = backup_cluster_schedule_fill(&m->schedule, list, m->options->repository_claim, err);
	if (rc)
		return rc;
	if (m->schedule.n == 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "no claim in namespace '%s' matches the selector '%s'", ns,
				     m->how->selector);
	return find_nodes(m, err);
}

/* --- one claim --- */

/* With the lock held. */
static void many_tell(struct many *m, size_t at, struct cluster_outcome *outcome)
{
	outcome->claim = m->schedule.targets[at].claim;
	outcome->node = backup_cluster_schedule_node(&m->schedule, at);
	m->sums.made += outcome->result != NULL;
	m->sums.failed += outcome->failure != NULL;
	m->sums.skipped += outcome->skipped != NULL;
	if (outcome->failure && !m->first.code) {
		m->first = *outcome->failure;
		m->first_claim = outcome->claim;
	}
	m->how->on_end(m->how->arg, outcome);
}

/* True only if the API server says so. */
static bool is_gone(struct many *m, const char *claim)
{
	struct kube_call how = {.timeout_ms = CALL_MS};
	kube_auto_json json_t *found = NULL;
	int rc = kube_get(m->lister.kube,
			  KUBE_REF(&kube_persistentvolumeclaims, m->options->ns, claim), &how,
			  &found, NULL);

	return rc == CAIRN_NOT_FOUND || (rc == 0 && kube_is_deleted(found));
}

static void back_up_one(struct many *m, size_t at)
{
	cairn_cleanup(backup_cluster_result_done) struct cluster_result result = {0};
	struct many_voice voice = {.many = m, .claim = m->schedule.targets[at].claim};
	struct cluster_options options = *m->options;
	struct cluster_outcome outcome = {0};
	struct cairn_err why = {0};
	uint64_t begun = cairn_monotonic_ns();
	bool gone;
	int rc;

	options.claim = voice.claim;
	options.talk = (struct backup_talk){.say = many_say, .arg = &voice};
	options.progress.report = NULL;
	options.events_refused = &m->events_refused;
	rc = backup_cluster_backup(&options, &result, &why);
	gone = rc && rc != CAIRN_CANCELLED && is_gone(m, voice.claim);
	why.code = rc;
	outcome.elapsed_ns = cairn_monotonic_ns() - begun;
	if (!rc)
		outcome.result = &result;
	else if (gone)
		outcome.skipped = "it was deleted meanwhile";
	else
		outcome.failure = &why;
	cairn_scoped_lock(&m->lock);
	backup_cluster_schedule_end(&m->schedule, at, rc == CAIRN_DEADLINE);
	many_tell(m, at, &outcome);
	pthread_cond_broadcast(&m->changed);
}

/* --- all of them --- */

/* Waits until a claim may begin; CLUSTER_SCHEDULE_NONE if none is left. With the lock held. */
static size_t many_take(struct many *m)
{
	size_t at;

	while (!many_cancelled(m)) {
		at = backup_cluster_schedule_begin(&m->schedule);
		if (at != CLUSTER_SCHEDULE_NONE || !backup_cluster_schedule_waits(&m->schedule))
			return at;
		(void)cairn_cond_wait_until(&m->changed, &m->lock, cairn_after_ms(CHECK_MS));
	}
	return CLUSTER_SCHEDULE_NONE;
}

static void *many_work(void *arg)
{
	struct many *m = arg;
	size_t at;

	for (;;) {
		pthread_mutex_lock(&m->lock);
		at = many_take(m);
		if (at != CLUSTER_SCHEDULE_NONE)
			m->how->on_begin(m->how->arg, m->schedule.targets[at].claim,
					 backup_cluster_schedule_node(&m->schedule, at));
		pthread_mutex_unlock(&m->lock);
		if (at == CLUSTER_SCHEDULE_NONE)
			return NULL;
		back_up_one(m, at);
	}
}

/* Reports the claims that no thread has taken: skipped at first, or left by an interrupt. */
static void tell_the_others(struct many *m, enum cluster_target_state state)
{
	struct cairn_err why = {.code = CAIRN_CANCELLED, .msg = "interrupted before it began"};

	cairn_scoped_lock(&m->lock);
	for (size_t i = 0; i < m->schedule.n; i++) {
		const struct cluster_target *target = &m->schedule.targets[i];
		struct cluster_outcome outcome = {.skipped = target->skipped};

		if (target->state != state)
			continue;
		if (!outcome.skipped)
			outcome.failure = &why;
		many_tell(m, i, &outcome);
	}
}

static int many_conclude(const struct many *m, struct cairn_err *err)
{
	const struct cluster_many_sums *sums = &m->sums;

	if (sums->failed > 0) {
		*err = m->first;
		return cairn_err_wrap(err, "%zu of %zu claims failed; '%s'", sums->failed,
				      m->schedule.n, m->first_claim);
	}
	if (sums->made == 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "none of the %zu claims that match '%s' could be backed up",
				     sums->skipped, m->how->selector);
	return 0;
}

static int many_run(struct many *m, struct cairn_err *err)
{
	struct cairn_thread_group threads = {0};
	size_t jobs = m->how->jobs < m->schedule.n ? m->how->jobs : m->schedule.n;

	tell_the_others(m, CLUSTER_TARGET_SKIPPED);
	if (cairn_thread_group_start(&threads, (unsigned)jobs, many_work, m) == 0)
		return cairn_err_set(err, CAIRN_NO_SPACE, "no thread can be started");
	cairn_thread_group_join(&threads);
	tell_the_others(m, CLUSTER_TARGET_WAITS);
	return many_conclude(m, err);
}

int backup_cluster_backup_many(const struct cluster_options *options,
			       const struct cluster_many *many, struct cluster_many_sums *ret,
			       struct cairn_err *err)
{
	cairn_cleanup(many_done) struct many m = {
		.options = options,
		.how = many,
		.schedule = {.jobs = many->jobs, .jobs_per_node = many->jobs_per_node}};
	int rc;

	pthread_mutex_init(&m.lock, NULL);
	cairn_cond_init(&m.changed);
	rc = backup_cluster_run_connect(&m.lister, options, err);
	if (!rc)
		rc = find_claims(&m, err);
	if (!rc)
		rc = many_run(&m, err);
	*ret = m.sums;
	return rc;
}
