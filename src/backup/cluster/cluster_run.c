/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_run.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backup/cluster/cluster.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "kube/lease.h"
#include "kube/object.h"

#define PAUSE_MS   1000U
#define CHECK_MS   50U
#define REMOVE_MS  30000U
#define WARM_UP_MS 15000U /* how long an API server may take to become ready */
#define LEASE_WAIT 25000U /* longer than the lease of a killed run */
#define USER_AGENT "cairn-backup"

/* --- cancellation and other runs --- */

static bool cluster_run_unwanted(const struct cluster_run *run)
{
	return backup_cancelled(&run->options->progress);
}

/* The callback that API calls poll for cancellation. */
static int ask_user(void *arg)
{
	return cluster_run_unwanted(arg) ? CAIRN_CANCELLED : 0;
}

int backup_cluster_run_check(struct cluster_run *run, struct cairn_err *err)
{
	char holder[KUBE_LEADER_NAME_MAX];

	if (cluster_run_unwanted(run))
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	if (!run->leader || kube_leader_leads(run->leader))
		return 0;
	kube_leader_holder(run->leader, holder);
	if (!holder[0] || strcmp(holder, run->identity) == 0)
		return 0; /* the API server is unavailable to the other runs too */
	return cairn_err_set(err, CAIRN_ABORTED, "another run for '%s/%s' took over: %s",
			     run->names.ns, run->names.claim, holder);
}

int backup_cluster_run_pause(struct cluster_run *run, uint64_t ms, struct cairn_err *err)
{
	uint64_t until = cairn_monotonic_ns() + ms * CAIRN_NS_PER_MS;
	int rc = backup_cluster_run_check(run, err);

	while (!rc && cairn_monotonic_ns() < until) {
		cairn_sleep_ms(CHECK_MS);
		rc = backup_cluster_run_check(run, err);
	}
	return rc;
}

/* --- calls --- */

bool backup_cluster_passes(struct cluster_run *run, int rc)
{
	uint64_t now = cairn_monotonic_ns();

	if (rc == CAIRN_UNAVAILABLE || rc == CAIRN_DEADLINE || rc == CAIRN_INTERNAL) {
		run->outage_ns = now;
		return true;
	}
	if (rc != CAIRN_DENIED && rc != CAIRN_UNAUTHENTICATED && rc != CAIRN_NOT_FOUND)
		return false;
	return run->outage_ns && now - run->outage_ns < WARM_UP_MS * CAIRN_NS_PER_MS;
}

static struct kube_call cluster_run_call_of(struct cluster_run *run)
{
	return (struct kube_call){.check = ask_user, .check_arg = run};
}

/* True if a call should be retried after `rc`; waits before it returns true. */
static bool cluster_run_again(struct cluster_run *run, int rc, uint64_t begun_ns)
{
	return backup_cluster_passes(run, rc) &&
	       cairn_monotonic_ns() - begun_ns < CLUSTER_OUTAGE_MS * CAIRN_NS_PER_MS &&
	       backup_cluster_run_pause(run, PAUSE_MS, NULL) == 0;
}

/* Reports CAIRN_CANCELLED instead of the last failure if the user interrupted a
 * retry. */
static int cluster_run_settle(struct cluster_run *run, int rc, struct cairn_err *err)
{
	if (rc && cluster_run_unwanted(run))
		return cairn_err_set(err, CAIRN_CANCELLED, "interrupted");
	return rc;
}

int backup_cluster_get(struct cluster_run *run, const struct kube_ref *ref, json_t **ret,
		       struct cairn_err *err)
{
	uint64_t begun = cairn_monotonic_ns();
	struct kube_call how = cluster_run_call_of(run);
	int rc;

	do
		rc = kube_get(run->kube, ref, &how, ret, err);
	while (cluster_run_again(run, rc, begun));
	return cluster_run_settle(run, rc, err);
}

int backup_cluster_list(struct cluster_run *run, const struct kube_resource *resource,
			const char *selector, json_t **ret, struct cairn_err *err)
{
	const char *ns = resource->namespaced ? run->names.ns : NULL;
	struct kube_list_query query = {.label_selector = selector};
	uint64_t begun = cairn_monotonic_ns();
	struct kube_call how = cluster_run_call_of(run);
	int rc;

	do
		rc = kube_list(run->kube, KUBE_REF(resource, ns, NULL), &query, &how, ret, err);
	while (cluster_run_again(run, rc, begun));
	return cluster_run_settle(run, rc, err);
}

/* After a failure with unknown outcome the object may exist: its label shows
 * that it is ours. */
static int cluster_run_is_ours(struct cluster_run *run, const struct kube_ref *ref, json_t **ret,
			       struct cairn_err *err)
{
	kube_auto_json json_t *found = NULL;
	int rc = backup_cluster_get(run, ref, &found, err);
	const char *label = rc ? NULL : kube_label(found, CLUSTER_LABEL_RUN);

	if (rc)
		return rc;
	if (!label || strcmp(label, run->names.run) != 0)
		return cairn_err_set(err, CAIRN_EXISTS, "there is a %s '%s/%s' already",
				     ref->resource->kind, run->names.ns, ref->name);
	if (ret)
		*ret = cairn_take(found);
	return 0;
}

int backup_cluster_make(struct cluster_run *run, const struct kube_resource *resource,
			const json_t *object, json_t **ret, struct cairn_err *err)
{
	const struct kube_ref ref = {
		.resource = resource, .ns = run->names.ns, .name = kube_name(object)};
	const struct kube_ref kind = {.resource = resource, .ns = run->names.ns};
	uint64_t begun = cairn_monotonic_ns();
	struct kube_call how = cluster_run_call_of(run);
	int rc;

	do
		rc = kube_create(run->kube, &kind, object, &how, ret, err);
	while (cluster_run_again(run, rc, begun));
	rc = cluster_run_settle(run, rc, err);
	if (rc == CAIRN_EXISTS)
		rc = cluster_run_is_ours(run, &ref, ret, err);
	return rc ? cairn_err_wrap(err, "make %s '%s'", resource->kind, ref.name) : 0;
}

int backup_cluster_patch(struct cluster_run *run, const struct kube_ref *ref, json_t *patch,
			 struct cairn_err *err)
{
	uint64_t begun = cairn_monotonic_ns();
	struct kube_call how = cluster_run_call_of(run);
	int rc;

	if (!patch)
		return cairn_err_nomem(err, "patch");
	do
		rc = kube_patch(run->kube, ref, KUBE_PATCH_MERGE, patch, &how, NULL, err);
	while (cluster_run_again(run, rc, begun));
	rc = cluster_run_settle(run, rc, err);
	json_decref(patch);
	return rc ? cairn_err_wrap(err, "change %s '%s'", ref->resource->kind, ref->name) : 0;
}

int backup_cluster_remove(struct cluster_run *run, const struct kube_resource *resource,
			  const char *name, struct cairn_err *err)
{
	const struct kube_delete_options options = {.propagation = "Background"};
	const struct kube_ref ref = {.resource = resource, .ns = run->names.ns, .name = name};
	uint64_t until = cairn_monotonic_ns() + REMOVE_MS * CAIRN_NS_PER_MS;
	struct kube_call how = {.timeout_ms = REMOVE_MS};
	int rc;

	for (;;) {
		rc = kube_delete(run->kube, &ref, &options, &how, NULL, err);
		if (!backup_cluster_passes(run, rc) || cairn_monotonic_ns() >= until)
			break;
		cairn_sleep_ms(PAUSE_MS);
	}
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	return rc ? cairn_err_wrap(err, "delete %s '%s'", resource->kind, name) : 0;
}

/* --- begin and end --- */

/* Use the image of our own pod, so that a deployment changes it in one place. */
static int find_own_image(struct cluster_run *run, struct cairn_err *err)
{
	cairn_auto_free char *selector = cairn_printf("metadata.name=%s", run->options->pod);
	struct kube_list_query query = {.field_selector = selector};
	struct kube_call how = cluster_run_call_of(run);
	kube_auto_json json_t *list = NULL;
	const char *image = NULL;
	int rc;

	if (!selector)
		return cairn_err_nomem(err, "the name of a pod");
	rc = kube_list(run->kube, KUBE_REF(&kube_pods, run->names.ns, NULL), &query, &how, &list,
		       err);
	if (rc)
		return cairn_err_wrap(err, "image of pod '%s'", run->options->pod);
	(void)json_unpack(list, "{s:[{s:{s:[{s:s}]}}]}", "items", "spec", "containers", "image",
			  &image);
	if (!image || strlen(image) >= sizeof(run->image))
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "there is no pod '%s' in namespace '%s' to take the Job's "
				     "image from",
				     run->options->pod, run->names.ns);
	snprintf(run->image, sizeof(run->image), "%s", image);
	return 0;
}

static int choose_image(struct cluster_run *run, struct cairn_err *err)
{
	const char *image = run->options->image;

	if (!image)
		return find_own_image(run, err);
	if (strlen(image) >= sizeof(run->image))
		return cairn_err_set(err, CAIRN_INVALID, "the name of the image is too long");
	snprintf(run->image, sizeof(run->image), "%s", image);
	return 0;
}

int backup_cluster_run_connect(struct cluster_run *run, const struct cluster_options *options,
			       struct cairn_err *err)
{
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	struct kube_config_options where = {.kubeconfig = options->kubeconfig,
					    .context = options->context};
	struct kube_client_options how = {.user_agent = USER_AGENT};
	int rc = kube_config_load(&where, &config, err);

	run->options = options;
	run->names.ns = options->ns;
	return rc ? rc : kube_client_new(config, &how, &run->kube, err);
}

int backup_cluster_run_begin(struct cluster_run *run, const struct cluster_options *options,
			     const char *role, struct cairn_err *err)
{
	char repository[512];
	char host[40] = "";
	int rc = backup_cluster_run_connect(run, options, err);

	if (rc)
		return rc;
	snprintf(repository, sizeof(repository), "%s\n%s\n%s",
		 options->secret ? options->secret : "",
		 options->repository ? options->repository : "",
		 options->repository_claim ? options->repository_claim : "");
	rc = backup_cluster_names_make(options->ns, options->claim, role, repository,
				       cairn_now_ns(), &run->names, err);
	if (rc)
		return rc;
	(void)gethostname(host, sizeof(host) - 1);
	snprintf(run->identity, sizeof(run->identity), "%s-%s", host, run->names.run);
	snprintf(run->lease, sizeof(run->lease), "cairn-%s-%s", role, run->names.key);
	return choose_image(run, err);
}

/* Sets the owner of the lease, with which it is deleted; NULL: none. A missing
 * lease is not an error, because a renewal creates it again. */
static int own_lease(struct cluster_run *run, const json_t *owner, struct cairn_err *err)
{
	json_t *owners = owner ? json_pack("[o]", backup_cluster_owner_of(owner)) : json_null();
	int rc = backup_cluster_patch(run, KUBE_REF(&kube_leases, run->names.ns, run->lease),
				      json_pack("{s:{s:o}}", "metadata", "ownerReferences", owners),
				      err);

	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

int backup_cluster_run_lock(struct cluster_run *run, struct cairn_err *err)
{
	struct kube_leader_options options = {
		.ns = run->names.ns, .name = run->lease, .identity = run->identity};
	uint64_t wait = run->options->lock_ms;
	char holder[KUBE_LEADER_NAME_MAX];
	int rc = kube_leader_new(run->kube, &options, &run->leader, err);

	if (!rc)
		rc = kube_leader_wait(run->leader, wait > LEASE_WAIT ? wait : LEASE_WAIT, ask_user,
				      run, err);
	if (rc == CAIRN_DEADLINE) {
		kube_leader_holder(run->leader, holder);
		return holder[0] ? cairn_err_set(err, CAIRN_ABORTED,
						 "another run for '%s/%s' goes on: %s",
						 run->names.ns, run->names.claim, holder)
				 : cairn_err_set(err, CAIRN_DEADLINE,
						 "the Lease '%s/%s' cannot be had: may it be made, "
						 "read and changed?",
						 run->names.ns, run->lease);
	}
	/* It may belong to the Job of a killed run, which is about to be
	 * deleted. */
	return rc ? rc : own_lease(run, NULL, err);
}

static void remove_or_say(struct cluster_run *run, const struct kube_resource *resource,
			  const char *name)
{
	struct cairn_err why = {0};

	if (backup_cluster_remove(run, resource, name, &why) != 0)
		backup_say(&run->options->talk,
			   "%s; it goes with its Job or with the next run for the claim", why.msg);
}

/* Deletes the lease if no other run holds it or takes it at this moment. It may still
 * be ours, if releasing it failed or it was renewed late. */
static void remove_lease(struct cluster_run *run)
{
	struct kube_call how = {.timeout_ms = REMOVE_MS, .urgent = true};
	struct kube_delete_options options = {0};
	kube_auto_json json_t *lease = NULL;
	const char *holder;

	if (kube_get(run->kube, KUBE_REF(&kube_leases, run->names.ns, run->lease), &how, &lease,
		     NULL) != 0)
		return;
	holder = kube_str(lease, "spec", "holderIdentity");
	if (holder && *holder && strcmp(holder, run->identity) != 0)
		return;
	options.resource_version = kube_resource_version(lease);
	(void)kube_delete(run->kube, KUBE_REF(&kube_leases, run->names.ns, run->lease), &options,
			  &how, NULL, NULL);
}

void backup_cluster_run_end(struct cluster_run *run)
{
	if (run->made)
		remove_or_say(run, &kube_persistentvolumeclaims, run->made);
	if (run->has_claim)
		remove_or_say(run, &kube_persistentvolumeclaims, run->names.name);
	if (run->has_snapshot)
		remove_or_say(run, &kube_volumesnapshots, run->names.name);
	if (run->job_name[0])
		remove_or_say(run, &kube_jobs, run->job_name);
	json_decref(run->job);
	if (run->leader) {
		kube_leader_free(run->leader);
		remove_lease(run);
	}
	kube_client_free(run->kube);
	*run = (struct cluster_run){0};
}

int backup_cluster_run_job(struct cluster_run *run, const struct cluster_job_spec *spec,
			   bool anchor, struct cairn_err *err)
{
	kube_auto_json json_t *job = NULL;
	int rc = backup_cluster_job(spec, &job, err);

	if (rc)
		return rc;
	snprintf(run->job_name, sizeof(run->job_name), "%s", kube_name(job));
	rc = backup_cluster_make(run, &kube_jobs, job, &run->job, err);
	return rc || !anchor ? rc : own_lease(run, run->job, err);
}

int backup_cluster_run_drop_job(struct cluster_run *run, struct cairn_err *err)
{
	int rc = backup_cluster_remove(run, &kube_jobs, run->job_name, err);

	if (rc)
		return rc;
	run->job_name[0] = '\0';
	json_decref(run->job);
	run->job = NULL;
	return 0;
}
