/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/certificate_keeper.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/ticker.h"
#include "certificates/certificate_pair.h"
#include "certificates/certificate_plan.h"
#include "certificates/certificate_secret.h"
#include "certificates/certificate_trust.h"
#include "kube/kinds.h"

/* Between two looks: a hundredth of the life, within these limits. */
#define LOOK_MIN_MS 1000U
#define LOOK_MAX_MS 15000U

#define WORD_BYTES     24U
#define NAME_MAX_BYTES 256
#define SIDECAR_PORT   6443

/* The services of deploy/. */
static const struct service {
	const char *suffix; /* of the name */
	unsigned generation;
	enum certificates_object object;
	bool has_word;
} services[] = {
	{"snapshot-metadata", CERTIFICATES_SNAPSHOT_METADATA, CERTIFICATES_METADATA_SERVICE, false},
	{"manager", CERTIFICATES_SESSIONS, CERTIFICATES_WEBHOOK, true},
	{"diffsnap", CERTIFICATES_DIFFSNAP, CERTIFICATES_NO_OBJECT, false},
	{"cbt-http", CERTIFICATES_VOLUMESNAPSHOTDELTA, CERTIFICATES_NO_OBJECT, false},
	{"aggapi", CERTIFICATES_VOLUMESNAPSHOTDELTA, CERTIFICATES_API_SERVICE, false},
};

#define N_SERVICES (sizeof(services) / sizeof(services[0]))

struct certificates_keeper {
	struct kube_client *client;
	char *ns, *release, *driver;
	unsigned generations;
	uint64_t life_s, overlap_s, look_ms;
	atomic_bool leads;
	struct cairn_ticker ticker;
	/* Used only by the ticker: the last error of each service, logged when it changes. */
	struct cairn_err said[N_SERVICES];
	uint64_t ends_s[N_SERVICES]; /* as end_in_use() found it last; 0: not known yet */
	atomic_uint_fast64_t issued, errors, expiry_s;
};

/* One service in one pass. */
struct kept {
	struct certificates_keeper *keeper;
	const struct service *service;
	uint64_t now_s;
	char name[NAME_MAX_BYTES];        /* of the service */
	char secret_name[NAME_MAX_BYTES]; /* of its Secret */
	struct certificates_secret secret;
	struct certificates_validity current, next;
	bool has_current, has_next;
	struct cairn_err why; /* if there is no current one */
};

/* ---- one service ---- */

static void look_at_pairs(struct kept *k)
{
	const struct certificates_secret *s = &k->secret;
	const char *ns = k->keeper->ns;

	k->has_current = certificates_check(&s->current, s->bundle, k->name, ns, k->now_s,
					    &k->current, &k->why) == 0;
	k->has_next = s->next.crt && certificates_check(&s->next, s->bundle, k->name, ns, k->now_s,
							&k->next, NULL) == 0;
}

static int publish_bundle(struct kept *k, bool *ret_changed, struct cairn_err *err)
{
	struct certificates_keeper *keeper = k->keeper;
	cairn_auto_free char *address =
		cairn_printf("%s.%s.svc:%u", k->name, keeper->ns, SIDECAR_PORT);
	cairn_auto_free char *sessions = cairn_printf("%s-sessions", keeper->release);
	const struct certificates_trust trust = {
		.object = k->service->object,
		.name = k->service->object == CERTIFICATES_WEBHOOK ? sessions
			: k->service->object == CERTIFICATES_API_SERVICE
				? "v1alpha1." KUBE_CBT_GROUP
				: keeper->driver,
		.driver = keeper->driver,
		.address = address,
		.bundle = k->secret.bundle,
		.secret = k->secret.word,
	};

	if (!address || !sessions)
		return cairn_err_nomem(err, "authorities");
	return certificates_trust(keeper->client, &trust, ret_changed, err);
}

/* Replaces the bundle with its valid authorities and `added`; *ret_changed says whether it
 * differs. */
static int renew_bundle(struct kept *k, const char *added, bool *ret_changed, struct cairn_err *err)
{
	char *bundle = NULL;
	int rc = certificates_bundle(k->secret.bundle, added, k->now_s, &bundle, err);

	if (rc)
		return rc;
	*ret_changed = !k->secret.bundle || strcmp(bundle, k->secret.bundle) != 0;
	free(k->secret.bundle);
	k->secret.bundle = bundle;
	return 0;
}

static int issue_to(struct kept *k, struct certificates_pair *to, struct cairn_err *err)
{
	struct certificates_keeper *keeper = k->keeper;
	cairn_auto_free char *authority = NULL;
	bool changed;
	int rc;

	certificates_pair_done(to);
	rc = certificates_issue(k->name, keeper->ns, k->now_s, keeper->life_s, to, &authority, err);
	if (!rc)
		rc = renew_bundle(k, authority, &changed, err);
	if (!rc)
		atomic_fetch_add(&keeper->issued, 1);
	return rc;
}

static int write_kept(struct kept *k, const char *what, struct cairn_err *err)
{
	int rc = certificates_secret_write(k->keeper->client, k->keeper->ns, k->secret_name,
					   &k->secret, err);

	if (!rc)
		cairn_log(CAIRN_LOG_INFO, what, CAIRN_STR("service", k->name),
			  CAIRN_STR("reason", k->has_current ? "" : k->why.msg));
	return rc;
}

static int add_word(struct certificates_secret *s, struct cairn_err *err)
{
	char word[2 * WORD_BYTES + 1];
	int rc = cairn_random_hex(word, WORD_BYTES, err);

	if (rc)
		return rc;
	s->word = cairn_strdup(word);
	return s->word ? 0 : cairn_err_nomem(err, "Secret");
}

/* What is in order but for the list of authorities or the secret of the webhook. */
static int tidy_secret(struct kept *k, bool *ret_changed, struct cairn_err *err)
{
	int rc = renew_bundle(k, NULL, ret_changed, err);

	if (!rc && k->service->has_word && !k->secret.word) {
		rc = add_word(&k->secret, err);
		*ret_changed = true;
	}
	if (!rc && k->secret.next.crt && !k->has_next) {
		certificates_pair_done(&k->secret.next);
		*ret_changed = true;
	}
	return rc;
}

static int take_step(struct kept *k, enum certificates_step step, bool published,
		     struct cairn_err *err)
{
	bool changed = false;
	int rc = tidy_secret(k, &changed, err);

	if (rc)
		return rc;
	switch (step) {
	case CERTIFICATES_ISSUE:
		rc = issue_to(k, &k->secret.current, err);
		return rc ? rc : write_kept(k, "certificate created", err);
	case CERTIFICATES_PREPARE:
		rc = issue_to(k, &k->secret.next, err);
		return rc ? rc : write_kept(k, "next certificate created", err);
	case CERTIFICATES_SWITCH:
		if (k->has_current && !published)
			return 0; /* in the next pass */
		certificates_pair_done(&k->secret.current);
		k->secret.current = k->secret.next;
		k->secret.next = (struct certificates_pair){0};
		return write_kept(k, "certificate renewed", err);
	default:
		return changed ? write_kept(k, "Secret completed", err) : 0;
	}
}

/* The Secret stays with its creator: a certificate of another PKI is never replaced, even a bad
 * one. */
static bool is_of_others(const struct kept *k)
{
	const struct certificates_secret *s = &k->secret;

	return s->is_foreign || ((s->current.crt || s->current.key) &&
				 !certificates_is_own(s->current.crt, k->name, k->keeper->ns));
}

static int leave_alone(const struct kept *k, struct cairn_err *err)
{
	if (k->secret.is_foreign)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "Secret %s is kept by cert-manager and left alone",
				     k->secret_name);
	return cairn_err_set(err, CAIRN_PRECONDITION,
			     "Secret %s was not made by cairn and is left alone; delete it to have "
			     "a certificate made",
			     k->secret_name);
}

/* When the certificate that the service has now expires. One that cannot be used has expired
 * now, whatever its own end is. */
static uint64_t end_in_use(const struct kept *k, bool stored)
{
	struct certificates_validity now_used;
	uint64_t ends_s = k->now_s;

	if (is_of_others(k))
		ends_s = certificates_end(k->secret.current.crt);
	else if (!stored && k->has_current)
		ends_s = k->current.ends_s;
	else if (stored && certificates_check(&k->secret.current, k->secret.bundle, k->name,
					      k->keeper->ns, k->now_s, &now_used, NULL) == 0)
		ends_s = now_used.ends_s;
	return ends_s > 0 ? ends_s : k->now_s;
}

static int keep_read(struct kept *k, struct cairn_err *err)
{
	struct certificates_keeper *keeper = k->keeper;
	enum certificates_step step;
	struct cairn_err unpublished = {0};
	bool changed = false;
	int rc;

	if (is_of_others(k))
		return leave_alone(k, err);
	look_at_pairs(k);
	step = certificates_plan(k->has_current ? &k->current : NULL, k->has_next ? &k->next : NULL,
				 k->now_s, keeper->overlap_s);
	/* Before the switch, so that no client meets a certificate of an unknown authority. */
	if (k->has_current && (!k->service->has_word || k->secret.word))
		(void)publish_bundle(k, &changed, &unpublished);
	rc = take_step(k, step, !changed && unpublished.code == 0, err);
	return rc ? rc : publish_bundle(k, &changed, err);
}

/* *ends_s stays as it is if the Secret cannot be read. */
static int keep_service(struct certificates_keeper *keeper, const struct service *service,
			uint64_t *ends_s, struct cairn_err *err)
{
	struct kept k = {
		.keeper = keeper,
		.service = service,
		.now_s = cairn_now_ns() / CAIRN_NS_PER_SEC,
	};
	int rc;

	snprintf(k.name, sizeof(k.name), "%s-%s", keeper->release, service->suffix);
	snprintf(k.secret_name, sizeof(k.secret_name), "%.*s-tls", NAME_MAX_BYTES - 8, k.name);
	rc = certificates_secret_read(keeper->client, keeper->ns, k.secret_name, &k.secret, err);
	if (!rc) {
		rc = keep_read(&k, err);
		*ends_s = end_in_use(&k, rc == 0);
	}
	certificates_secret_done(&k.secret);
	return rc;
}

/* ---- the thread ---- */

static void keeper_tell(struct certificates_keeper *keeper, size_t i, const struct cairn_err *err)
{
	bool same = strcmp(keeper->said[i].msg, err->msg) == 0;

	keeper->said[i] = *err;
	if (err->code)
		atomic_fetch_add(&keeper->errors, 1);
	if (err->code && !same)
		cairn_log(CAIRN_LOG_WARN, "a certificate cannot be kept",
			  CAIRN_STR("service", services[i].suffix), CAIRN_STR("error", err->msg));
}

/* The earliest end; 0 while another process leads and keeps them. */
static void keeper_report_end(struct certificates_keeper *keeper)
{
	uint64_t earliest_s = 0;

	for (size_t i = 0; i < N_SERVICES && atomic_load(&keeper->leads); i++)
		if (keeper->ends_s[i] > 0 && (earliest_s == 0 || keeper->ends_s[i] < earliest_s))
			earliest_s = keeper->ends_s[i];
	atomic_store(&keeper->expiry_s, earliest_s);
}

static uint64_t keeper_look(void *arg)
{
	struct certificates_keeper *keeper = arg;

	for (size_t i = 0; i < N_SERVICES && atomic_load(&keeper->leads); i++) {
		struct cairn_err err = {0};

		if (cairn_ticker_stopping(&keeper->ticker))
			break;
		if ((keeper->generations & services[i].generation) == 0)
			continue;
		(void)keep_service(keeper, &services[i], &keeper->ends_s[i], &err);
		keeper_tell(keeper, i, &err);
	}
	keeper_report_end(keeper);
	return atomic_load(&keeper->leads) ? keeper->look_ms : LOOK_MIN_MS;
}

int certificates_keeper_new(const struct certificates_options *options,
			    struct certificates_keeper **ret, struct cairn_err *err)
{
	cairn_cleanup(certificates_keeper_freep) struct certificates_keeper *keeper =
		cairn_calloc(1, sizeof(*keeper));
	uint64_t look_ms = options->life_ms / 100;
	int rc;

	if (!keeper)
		return cairn_err_nomem(err, "certificates");
	keeper->client = options->client;
	keeper->ns = cairn_strdup(options->ns);
	keeper->release = cairn_strdup(options->release);
	keeper->driver = cairn_strdup(options->driver);
	keeper->generations = options->generations;
	keeper->life_s = options->life_ms / 1000;
	keeper->overlap_s = options->overlap_ms / 1000;
	keeper->look_ms = look_ms < LOOK_MIN_MS   ? LOOK_MIN_MS
			  : look_ms > LOOK_MAX_MS ? LOOK_MAX_MS
						  : look_ms;
	if (!keeper->ns || !keeper->release || !keeper->driver)
		return cairn_err_nomem(err, "certificates");
	rc = cairn_ticker_start(&keeper->ticker, "certificates", 0, keeper_look, keeper, err);
	if (!rc)
		*ret = cairn_take(keeper);
	return rc;
}

void certificates_keeper_stop(struct certificates_keeper *keeper)
{
	cairn_ticker_stop(&keeper->ticker);
}

void certificates_keeper_free(struct certificates_keeper *keeper)
{
	if (!keeper)
		return;
	certificates_keeper_stop(keeper);
	free(keeper->ns);
	free(keeper->release);
	free(keeper->driver);
	free(keeper);
}

void certificates_keeper_lead(struct certificates_keeper *keeper, bool leads)
{
	atomic_store(&keeper->leads, leads);
}

void certificates_keeper_stats(struct certificates_keeper *keeper, struct certificates_stats *ret)
{
	ret->issued = atomic_load(&keeper->issued);
	ret->errors = atomic_load(&keeper->errors);
	ret->expiry_s = atomic_load(&keeper->expiry_s);
}
