/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/access.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "kube/authz_cache.h"
#include "kube/digest.h"
#include "kube/kube_cache.h"
#include "kube/kube_resource.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "kube/value.h"

#define AUDIENCES_MAX 16U /* one per driver name, which rarely changes */

struct sidecar_access {
	struct sidecar_kube kube;
	char *audience; /* NULL: read it from the SnapshotMetadataService */
	struct kube_cache *audiences;
	struct kube_authz_cache *guard;
};

/* A string as a cached value. */
struct text {
	struct kube_value value;
	char bytes[];
};

static void text_destroy(struct kube_value *value)
{
	free(value);
}

static int text_new(const char *bytes, struct kube_value **ret, struct cairn_err *err)
{
	size_t n = strlen(bytes) + 1;
	struct text *text = cairn_alloc(sizeof(*text) + n);

	if (!text)
		return cairn_err_nomem(err, "text");
	kube_value_init(&text->value, text_destroy);
	memcpy(text->bytes, bytes, n);
	*ret = &text->value;
	return 0;
}

static int access_review_token(void *self, const char *token, const char *audience,
			       const struct kube_wait *wait, json_t **ret_user,
			       struct cairn_err *err)
{
	const struct sidecar_kube *kube = self;

	return kube->ops->review_token(kube->self, token, audience, wait, ret_user, err);
}

static int access_review_access(void *self, const json_t *user, const struct kube_access *what,
				const struct kube_wait *wait, struct kube_access_answer *ret,
				struct cairn_err *err)
{
	const struct sidecar_kube *kube = self;

	return kube->ops->review_access(kube->self, user, what, wait, ret, err);
}

static const struct kube_reviewer_ops reviewer_ops = {
	.review_token = access_review_token,
	.review_access = access_review_access,
};

int sidecar_access_new(const struct sidecar_access_options *options, struct sidecar_access **ret,
		       struct cairn_err *err)
{
	cairn_cleanup(sidecar_access_freep) struct sidecar_access *access =
		cairn_calloc(1, sizeof(*access));
	struct kube_authz_cache_options guard = {
		.keep_ms = options->keep_ms,
		.refusal_ms = options->refusal_ms,
	};
	const struct kube_cache_options cache = {
		.entries_max = AUDIENCES_MAX,
		.keep_ms = options->keep_ms,
		.refusal_ms = options->refusal_ms,
	};
	int rc;

	if (!access)
		return cairn_err_nomem(err, "access");
	access->kube = options->kube;
	if (options->audience && options->audience[0]) {
		access->audience = cairn_strdup(options->audience);
		if (!access->audience)
			return cairn_err_nomem(err, "access");
	}
	guard.reviewer = (struct kube_reviewer){.ops = &reviewer_ops, .self = &access->kube};
	rc = kube_authz_cache_new(&guard, &access->guard, err);
	if (!rc)
		rc = kube_cache_new(&cache, &access->audiences, err);
	if (rc)
		return rc;
	*ret = cairn_take(access);
	return 0;
}

void sidecar_access_free(struct sidecar_access *access)
{
	if (!access)
		return;
	kube_cache_free(access->audiences);
	kube_authz_cache_free(access->guard);
	free(access->audience);
	free(access);
}

void sidecar_access_sweep(struct sidecar_access *access)
{
	kube_cache_sweep(access->audiences);
	kube_authz_cache_sweep(access->guard);
}

void sidecar_access_stats(struct sidecar_access *access, struct kube_cache_stats *ret_tokens,
			  struct kube_cache_stats *ret_rights)
{
	kube_authz_cache_stats(access->guard, ret_tokens, ret_rights);
}

/* --- the audience --- */

struct service_question {
	struct sidecar_access *access;
	const char *driver;
};

static int ask_audience(void *arg, const struct kube_wait *wait, struct kube_value **ret,
			uint64_t *until_ns, struct cairn_err *err)
{
	const struct service_question *q = arg;
	const struct sidecar_kube *kube = &q->access->kube;
	kube_auto_json json_t *service = NULL;
	const char *audience;
	int rc = kube->ops->get(kube->self,
				KUBE_REF(&kube_snapshotmetadataservices, NULL, q->driver), wait,
				&service, err);

	(void)until_ns;
	if (rc) {
		cairn_err_wrap(err, "failed to find the SnapshotMetadataService CR for driver '%s'",
			       q->driver);
		return rc;
	}
	audience = kube_str(service, "spec", "audience");
	if (!audience || !audience[0])
		return cairn_err_set(
			err, CAIRN_PRECONDITION,
			"the SnapshotMetadataService CR for driver '%s' has no audience",
			q->driver);
	return text_new(audience, ret, err);
}

/* *ret is borrowed from *held or from `access`. */
static int find_audience(struct sidecar_access *access, const char *driver,
			 const struct kube_wait *wait, struct kube_value **held, const char **ret,
			 struct cairn_err *err)
{
	struct service_question q = {.access = access, .driver = driver};
	struct kube_digest key = kube_digest_of("audience", driver, NULL);
	struct kube_wait nobodys = *wait;
	int rc;

	if (access->audience) {
		*ret = access->audience;
		return 0;
	}
	/* All callers wait for this answer, so it is not queued under the address of the first
	 * one. */
	nobodys.origin = NULL;
	rc = kube_cache_get(access->audiences, &key, ask_audience, &q, &nobodys, held, err);
	if (rc)
		return rc;
	*ret = ((struct text *)(void *)*held)->bytes;
	return 0;
}

/* --- users and permissions --- */

int sidecar_access_user(struct sidecar_access *access, const char *driver, const char *token,
			const struct kube_wait *wait, struct kube_user **ret, struct cairn_err *err)
{
	kube_auto_value struct kube_value *held = NULL;
	const char *audience;
	int rc = find_audience(access, driver, wait, &held, &audience, err);

	if (rc) {
		cairn_err_wrap(err, "failed to authenticate user");
		return kube_authz_cache_could_not_ask(rc, err);
	}
	rc = kube_authz_cache_user(access->guard, token, audience, wait, ret, err);
	if (rc == CAIRN_UNAUTHENTICATED)
		return cairn_err_set(err, rc, "unauthenticated user");
	return rc ? cairn_err_wrap(err, "failed to authenticate user") : 0;
}

int sidecar_access_check(struct sidecar_access *access, const struct kube_user *user,
			 const char *ns, const char *snapshot, const struct kube_wait *wait,
			 struct cairn_err *err)
{
	int rc = kube_authz_cache_may_read(access->guard, user, ns, snapshot, wait, err);

	if (rc == CAIRN_DENIED)
		return cairn_err_wrap(err,
				      "user does not have permissions to perform the operation");
	return rc ? cairn_err_wrap(err, "failed to authorize the user") : 0;
}
