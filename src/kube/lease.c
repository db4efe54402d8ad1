/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/lease.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/wait.h"
#include "kube/deadline.h"
#include "kube/kube_client.h"
#include "kube/lease_record.h"
#include "kube/object.h"

#define DURATION_MS 15000
#define RENEW_MS    10000
#define RETRY_MS    2000
#define RELEASE_MS  2000 /* timeout for releasing the lease at the end */
#define CALL_MIN_MS 500

struct kube_leader {
	struct kube_client *client;
	char *ns;
	char *name;
	char *identity;
	uint64_t duration_ms, renew_ms, retry_ms;
	void (*on_change)(void *arg, bool leads);
	void *arg;

	pthread_t thread;
	bool running;
	atomic_bool stop;

	/* used only by the thread */
	json_t *lease; /* as the server last gave it; NULL when not known */
	struct kube_lease_seen seen;
	bool reported; /* last value passed to on_change */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* guarded by lock */
	bool held;
	uint64_t renewed_ns; /* time before the last renewal was sent */
	char holder[KUBE_LEADER_NAME_MAX];
};

static int lease_stopped(void *arg)
{
	const struct kube_leader *leader = arg;

	return atomic_load(&leader->stop) ? CAIRN_CANCELLED : 0;
}

/* With the lock held. False from renew_ms on, which is before duration_ms, when others may take the
 * lease: so two processes do not lead at the same time. */
static bool lease_leads(const struct kube_leader *leader)
{
	return leader->held &&
	       cairn_monotonic_ns() - leader->renewed_ns < leader->renew_ms * CAIRN_NS_PER_MS;
}

bool kube_leader_leads(struct kube_leader *leader)
{
	cairn_scoped_lock(&leader->lock);
	return lease_leads(leader);
}

/* A leader's call must not take longer than its lease lasts. */
static struct kube_call lease_call_of(struct kube_leader *leader)
{
	struct kube_call how = {.urgent = true,
				.check = lease_stopped,
				.check_arg = leader,
				.timeout_ms = leader->renew_ms};
	uint64_t now = cairn_monotonic_ns();
	uint64_t end;

	cairn_scoped_lock(&leader->lock);
	end = leader->renewed_ns + leader->renew_ms * CAIRN_NS_PER_MS;
	if (lease_leads(leader) && end > now)
		how.timeout_ms = (end - now) / CAIRN_NS_PER_MS;
	if (how.timeout_ms < CALL_MIN_MS && leader->renew_ms > CALL_MIN_MS)
		how.timeout_ms = CALL_MIN_MS;
	return how;
}

static void lease_forget(struct kube_leader *leader)
{
	json_decref(leader->lease);
	leader->lease = NULL;
}

/* Reads the lease or creates it. Returns 1 if this process created it and so holds it. */
static int read_or_make(struct kube_leader *leader, const struct kube_call *how,
			struct cairn_err *err)
{
	const struct kube_ref *ref = KUBE_REF(&kube_leases, leader->ns, leader->name);
	kube_auto_json json_t *made = NULL;
	int rc = kube_get(leader->client, ref, how, &leader->lease, err);

	if (rc != CAIRN_NOT_FOUND)
		return rc;
	made = kube_object_new(&kube_leases, leader->ns, leader->name);
	rc = made ? kube_lease_hold(made, leader->identity, leader->duration_ms, cairn_now_ns(),
				    err)
		  : cairn_err_nomem(err, "lease");
	if (!rc)
		rc = kube_create(leader->client, ref, made, how, &leader->lease, err);
	return rc ? rc : 1;
}

/* One attempt to take or renew it: 1 if it is ours, 0 if another process holds it. */
static int lease_try(struct kube_leader *leader, struct cairn_err *err)
{
	const struct kube_ref *ref = KUBE_REF(&kube_leases, leader->ns, leader->name);
	const struct kube_call how = lease_call_of(leader);
	kube_auto_json json_t *wanted = NULL;
	json_t *now = NULL;
	int rc;

	if (!leader->lease) {
		rc = read_or_make(leader, &how, err);
		if (rc)
			return rc;
	}
	rc = kube_lease_look(&leader->seen, leader->lease, cairn_monotonic_ns(), err);
	if (rc)
		return rc;
	if (!kube_lease_is_free(&leader->seen, leader->lease, leader->identity, leader->duration_ms,
				cairn_monotonic_ns()))
		return 0;
	wanted = kube_copy(leader->lease);
	rc = wanted ? kube_lease_hold(wanted, leader->identity, leader->duration_ms, cairn_now_ns(),
				      err)
		    : cairn_err_nomem(err, "lease");
	if (!rc)
		rc = kube_update(leader->client, ref, wanted, &how, &now, err);
	if (rc)
		return rc;
	lease_forget(leader);
	leader->lease = now;
	return 1;
}

static void lease_note(struct kube_leader *leader, int rc, uint64_t began_ns)
{
	cairn_scoped_lock(&leader->lock);
	if (rc == 1) {
		leader->held = true;
		/* From before the request: others may count from any moment since. */
		leader->renewed_ns = began_ns;
	} else if (rc == 0) {
		leader->held = false;
	} /* after an error it stays ours until it expires */
	if (leader->lease)
		snprintf(leader->holder, sizeof(leader->holder), "%s",
			 kube_lease_holder(leader->lease));
	if (!lease_leads(leader))
		leader->held = false;
	pthread_cond_broadcast(&leader->changed);
}

static void lease_tell(struct kube_leader *leader)
{
	bool now = kube_leader_leads(leader);

	if (now == leader->reported)
		return;
	leader->reported = now;
	if (leader->on_change)
		leader->on_change(leader->arg, now);
}

/* Sleeps until the next attempt, or until the lease would expire if that is earlier. */
static void lease_rest(struct kube_leader *leader)
{
	uint64_t until = cairn_monotonic_ns() + leader->retry_ms * CAIRN_NS_PER_MS;
	const struct kube_deadline patience = {.deadline_ns = UINT64_MAX};

	cairn_scoped_lock(&leader->lock);
	if (lease_leads(leader) && leader->renewed_ns + leader->renew_ms * CAIRN_NS_PER_MS < until)
		until = leader->renewed_ns + leader->renew_ms * CAIRN_NS_PER_MS;
	while (!atomic_load(&leader->stop) && cairn_monotonic_ns() < until)
		kube_deadline_wait(&patience, &leader->changed, &leader->lock, until);
}

/* Releases the lease, so that the next leader need not wait for it to expire. */
static void lease_give_back(struct kube_leader *leader)
{
	const struct kube_call how = {.urgent = true, .timeout_ms = RELEASE_MS};
	kube_auto_json json_t *wanted = NULL;

	if (!kube_leader_leads(leader) || !leader->lease)
		return;
	wanted = kube_copy(leader->lease);
	if (wanted && kube_lease_hold(wanted, "", leader->duration_ms, cairn_now_ns(), NULL) == 0)
		(void)kube_update(leader->client, KUBE_REF(&kube_leases, leader->ns, leader->name),
				  wanted, &how, NULL, NULL);
	pthread_mutex_lock(&leader->lock);
	leader->held = false;
	pthread_mutex_unlock(&leader->lock);
	lease_tell(leader);
}

static void *lease_run(void *arg)
{
	struct kube_leader *leader = arg;

	while (!atomic_load(&leader->stop)) {
		struct cairn_err err = {0};
		uint64_t began = cairn_monotonic_ns();
		int rc;

		lease_tell(leader); /* the lease may have expired */
		rc = lease_try(leader, &err);
		lease_note(leader, rc, began);
		/* Only the result of our own write is reused; otherwise read the lease again. */
		if (rc != 1)
			lease_forget(leader);
		lease_tell(leader);
		lease_rest(leader);
	}
	lease_give_back(leader);
	return NULL;
}

static int make_identity(const struct kube_leader_options *options, char **ret,
			 struct cairn_err *err)
{
	char host[64] = "", chance[17];
	int rc;

	if (options->identity && options->identity[0]) {
		*ret = cairn_strdup(options->identity);
	} else {
		rc = cairn_random_hex(chance, 8, err);
		if (rc)
			return rc;
		(void)gethostname(host, sizeof(host) - 1);
		*ret = cairn_printf("%s_%s", host, chance);
	}
	return *ret ? 0 : cairn_err_nomem(err, "identity");
}

static int lease_fill(struct kube_leader *leader, const struct kube_leader_options *options,
		      struct cairn_err *err)
{
	leader->duration_ms = options->duration_ms ? options->duration_ms : DURATION_MS;
	leader->renew_ms = options->renew_ms ? options->renew_ms : RENEW_MS;
	leader->retry_ms = options->retry_ms ? options->retry_ms : RETRY_MS;
	leader->on_change = options->on_change;
	leader->arg = options->arg;
	if (!options->ns || !options->name || !options->ns[0] || !options->name[0])
		return cairn_err_set(err, CAIRN_INVALID, "a lease needs a namespace and a name");
	if (leader->duration_ms <= leader->renew_ms || leader->renew_ms <= leader->retry_ms)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the duration of a lease must be longer than the time to "
				     "renew it, and that longer than between tries");
	leader->ns = cairn_strdup(options->ns);
	leader->name = cairn_strdup(options->name);
	if (!leader->ns || !leader->name)
		return cairn_err_nomem(err, "lease");
	return make_identity(options, &leader->identity, err);
}

int kube_leader_new(struct kube_client *client, const struct kube_leader_options *options,
		    struct kube_leader **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_leader_freep) struct kube_leader *leader =
		cairn_calloc(1, sizeof(*leader));
	int rc;

	if (!leader)
		return cairn_err_nomem(err, "lease");
	pthread_mutex_init(&leader->lock, NULL);
	cairn_cond_init(&leader->changed);
	leader->client = client;
	rc = lease_fill(leader, options, err);
	if (rc)
		return rc;
	rc = pthread_create(&leader->thread, NULL, lease_run, leader);
	if (rc)
		return cairn_err_sys(err, rc, "thread of a lease");
	pthread_setname_np(leader->thread, "kube-lease");
	leader->running = true;
	*ret = cairn_take(leader);
	return 0;
}

void kube_leader_free(struct kube_leader *leader)
{
	if (!leader)
		return;
	if (leader->running) {
		pthread_mutex_lock(&leader->lock);
		atomic_store(&leader->stop, true);
		pthread_cond_broadcast(&leader->changed);
		pthread_mutex_unlock(&leader->lock);
		pthread_join(leader->thread, NULL);
	}
	lease_forget(leader);
	kube_lease_seen_done(&leader->seen);
	pthread_cond_destroy(&leader->changed);
	pthread_mutex_destroy(&leader->lock);
	free(leader->ns);
	free(leader->name);
	free(leader->identity);
	free(leader);
}

int kube_leader_wait(struct kube_leader *leader, uint64_t wait_ms, int (*check)(void *arg),
		     void *arg, struct cairn_err *err)
{
	const struct kube_call how = {
		.timeout_ms = wait_ms ? wait_ms : 1, .check = check, .check_arg = arg};
	const struct kube_deadline patience = kube_deadline_of(&how, 0, &leader->stop);

	cairn_scoped_lock(&leader->lock);
	while (!lease_leads(leader)) {
		int rc = kube_deadline_check(&patience, err);

		if (rc)
			return rc;
		kube_deadline_wait(&patience, &leader->changed, &leader->lock, UINT64_MAX);
	}
	return 0;
}

void kube_leader_holder(struct kube_leader *leader, char out[KUBE_LEADER_NAME_MAX])
{
	cairn_scoped_lock(&leader->lock);
	snprintf(out, KUBE_LEADER_NAME_MAX, "%s", leader->holder);
}
