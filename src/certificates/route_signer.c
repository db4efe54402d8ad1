/* SPDX-License-Identifier: Apache-2.0 */

#include "certificates/route_signer.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/ticker.h"
#include "certificates/certificate_keeper.h"
#include "certificates/certificate_pair.h"
#include "certificates/certificate_plan.h"
#include "certificates/certificate_secret.h"
#include "certificates/certificate_trust.h"
#include "certificates/route_authority.h"
#include "certificates/route_requests.h"
#include "kube/kube_client.h"
#include "kube/object.h"

#define SIGNER_LOOK_MS    2000U
#define SIGNER_NAME_MAX   320
#define SIGNER_NODE_LIVES 8U /* a node's certificate lives an eighth of its authority's life */

struct certificates_route_signer {
	struct kube_client *client;
	char *ns;
	char name[SIGNER_NAME_MAX];     /* of Secret and ConfigMap */
	char account[SIGNER_NAME_MAX];  /* user name of the sidecars */
	char selector[SIGNER_NAME_MAX]; /* of the requests */
	uint64_t life_s, overlap_s;
	atomic_bool leads;
	struct cairn_ticker ticker;
	struct cairn_err said; /* only the ticker: the last error, logged when it changes */
};

/* ---- the authority ---- */

/* Adds an authority to those that sidecars trust. */
static int signer_add_authority(struct certificates_secret *s, struct certificates_pair *to,
				uint64_t now_s, uint64_t life_s, struct cairn_err *err)
{
	char *bundle = NULL;
	int rc;

	certificates_pair_done(to);
	rc = certificates_authority_issue(now_s, life_s, to, err);
	if (!rc)
		rc = certificates_authority_join(s->bundle, to->crt, now_s, &bundle, err);
	if (rc)
		return rc;
	free(s->bundle);
	s->bundle = bundle;
	return 0;
}

/* Sidecars must trust every authority that signs, whatever became of the bundle in the Secret. */
static int signer_complete_bundle(struct certificates_secret *s, uint64_t now_s, bool *ret_changed,
				  struct cairn_err *err)
{
	const char *const crts[] = {s->current.crt, s->next.crt};
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(crts) / sizeof(crts[0]); i++) {
		char *bundle = NULL;

		if (!crts[i] || (s->bundle && strstr(s->bundle, crts[i])))
			continue;
		rc = certificates_authority_join(s->bundle, crts[i], now_s, &bundle, err);
		if (rc)
			break;
		*ret_changed = *ret_changed || !s->bundle || strcmp(s->bundle, bundle) != 0;
		free(s->bundle);
		s->bundle = bundle;
	}
	return rc;
}

static int signer_keep_authority(struct certificates_route_signer *signer,
				 struct certificates_secret *s, uint64_t now_s,
				 struct cairn_err *err)
{
	struct certificates_validity current, next;
	bool has_current = certificates_authority_check(&s->current, now_s, &current, NULL) == 0;
	bool has_next =
		s->next.crt && certificates_authority_check(&s->next, now_s, &next, NULL) == 0;
	bool changed = true;
	int rc = 0;

	if (s->is_foreign)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "Secret %s is kept by cert-manager and left alone",
				     signer->name);
	switch (certificates_plan(has_current ? &current : NULL, has_next ? &next : NULL, now_s,
				  signer->overlap_s)) {
	case CERTIFICATES_ISSUE:
		rc = signer_add_authority(s, &s->current, now_s, signer->life_s, err);
		break;
	case CERTIFICATES_PREPARE:
		rc = signer_add_authority(s, &s->next, now_s, signer->life_s, err);
		break;
	case CERTIFICATES_SWITCH:
		certificates_pair_done(&s->current);
		s->current = s->next;
		s->next = (struct certificates_pair){0};
		break;
	default:
		changed = false;
		rc = signer_complete_bundle(s, now_s, &changed, err);
	}
	if (rc || !changed)
		return rc;
	rc = certificates_secret_write(signer->client, signer->ns, signer->name, s, err);
	if (!rc)
		cairn_log(CAIRN_LOG_INFO, "authority of nodes changed",
			  CAIRN_STR("secret", signer->name));
	return rc;
}

static int signer_publish(struct certificates_route_signer *signer, const char *bundle,
			  struct cairn_err *err)
{
	const struct kube_ref *ref = KUBE_REF(&kube_configmaps, signer->ns, signer->name);
	const struct kube_call how = {.field_manager = CERTIFICATES_FIELD_MANAGER};
	kube_auto_json json_t *found = NULL;
	kube_auto_json json_t *wanted = kube_object_new(&kube_configmaps, signer->ns, signer->name);
	const char *text;
	int rc = kube_get(signer->client, ref, NULL, &found, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return cairn_err_wrap(err, "ConfigMap %s", signer->name);
	text = found ? kube_str(found, "data", "ca.crt") : NULL;
	if (text && strcmp(text, bundle) == 0)
		return 0;
	rc = wanted ? kube_set(wanted, err, json_string(bundle), "data", "ca.crt")
		    : cairn_err_nomem(err, "ConfigMap");
	if (!rc)
		rc = kube_apply(signer->client, ref, wanted, true, &how, NULL, err);
	return rc ? cairn_err_wrap(err, "ConfigMap %s", signer->name) : 0;
}

static int signer_pass(struct certificates_route_signer *signer, struct cairn_err *err)
{
	uint64_t now_s = cairn_now_ns() / CAIRN_NS_PER_SEC;
	const struct certificates_route_requests requests = {
		.client = signer->client,
		.account = signer->account,
		.selector = signer->selector,
		.leads = &signer->leads,
		.life_s = signer->life_s / SIGNER_NODE_LIVES,
		.now_s = now_s,
	};
	struct certificates_secret secret = {0};
	int rc = certificates_secret_read(signer->client, signer->ns, signer->name, &secret, err);

	if (!rc)
		rc = signer_keep_authority(signer, &secret, now_s, err);
	/* Before it signs, so that no sidecar meets a certificate of an unknown authority. */
	if (!rc)
		rc = signer_publish(signer, secret.bundle, err);
	if (!rc)
		rc = certificates_route_answer(&requests, &secret.current, err);
	certificates_secret_done(&secret);
	return rc;
}

/* ---- the thread ---- */

static uint64_t signer_look(void *arg)
{
	struct certificates_route_signer *signer = arg;
	struct cairn_err err = {0};

	if (!atomic_load(&signer->leads))
		return SIGNER_LOOK_MS;
	(void)signer_pass(signer, &err);
	if (err.code && strcmp(signer->said.msg, err.msg) != 0)
		cairn_log(CAIRN_LOG_WARN, "certificates of nodes cannot be signed",
			  CAIRN_STR("error", err.msg));
	signer->said = err;
	return SIGNER_LOOK_MS;
}

static bool signer_fits(int n)
{
	return n > 0 && n < SIGNER_NAME_MAX;
}

int certificates_route_signer_new(const struct certificates_options *o,
				  struct certificates_route_signer **ret, struct cairn_err *err)
{
	cairn_cleanup(certificates_route_signer_freep) struct certificates_route_signer *signer =
		cairn_calloc(1, sizeof(*signer));
	int rc;

	if (!signer)
		return cairn_err_nomem(err, "signer");
	signer->client = o->client;
	signer->ns = cairn_strdup(o->ns);
	signer->life_s = o->life_ms / 1000;
	signer->overlap_s = o->overlap_ms / 1000;
	if (!signer->ns)
		return cairn_err_nomem(err, "signer");
	if (!signer_fits(snprintf(signer->name, SIGNER_NAME_MAX, "%s-route-ca", o->release)) ||
	    !signer_fits(snprintf(signer->account, SIGNER_NAME_MAX,
				  "system:serviceaccount:%s:%s-snapshot-metadata", o->ns,
				  o->release)) ||
	    !signer_fits(snprintf(signer->selector, SIGNER_NAME_MAX, "spec.signerName=%s/route",
				  o->driver)))
		return cairn_err_set(err, CAIRN_INVALID, "release or driver: the name is too long");
	rc = cairn_ticker_start(&signer->ticker, "route-signer", 0, signer_look, signer, err);
	if (!rc)
		*ret = cairn_take(signer);
	return rc;
}

void certificates_route_signer_stop(struct certificates_route_signer *signer)
{
	cairn_ticker_stop(&signer->ticker);
}

void certificates_route_signer_free(struct certificates_route_signer *signer)
{
	if (!signer)
		return;
	certificates_route_signer_stop(signer);
	free(signer->ns);
	free(signer);
}

void certificates_route_signer_lead(struct certificates_route_signer *signer, bool leads)
{
	atomic_store(&signer->leads, leads);
}
