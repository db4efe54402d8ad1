/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/access.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "kube/object.h"
#include "kube/resource.h"
#include "sidecar/jwt.h"
#include "sidecar/key.h"
#include "sidecar/user.h"
#include "sidecar/value.h"
#include "sidecar/wait.h"

#define AUDIENCES_MAX 16U /* of drivers: one, unless it is renamed */

struct sidecar_access {
	struct sidecar_kube kube;
	char *audience; /* NULL: ask */
	struct sidecar_cache *audiences;
	struct sidecar_cache *tokens;
	struct sidecar_cache *rights;
};

/* A text as a value. */
struct text {
	struct sidecar_value value;
	char bytes[];
};

static void text_destroy(struct sidecar_value *value)
{
	free(value);
}

static int text_new(const char *bytes, struct sidecar_value **ret, struct cairn_err *err)
{
	size_t n = strlen(bytes) + 1;
	struct text *text = cairn_alloc(sizeof(*text) + n);

	if (!text)
		return cairn_err_nomem(err, "text");
	sidecar_value_init(&text->value, text_destroy);
	memcpy(text->bytes, bytes, n);
	*ret = &text->value;
	return 0;
}

int sidecar_access_new(const struct sidecar_access_options *options, struct sidecar_access **ret,
		       struct cairn_err *err)
{
	cairn_cleanup(sidecar_access_freep) struct sidecar_access *access =
		cairn_calloc(1, sizeof(*access));
	struct sidecar_cache_options cache = {
		.entries_max = SIDECAR_ACCESS_ENTRIES_MAX,
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
	rc = sidecar_cache_new(&cache, &access->tokens, err);
	if (!rc)
		rc = sidecar_cache_new(&cache, &access->rights, err);
	cache.entries_max = AUDIENCES_MAX;
	if (!rc)
		rc = sidecar_cache_new(&cache, &access->audiences, err);
	if (rc)
		return rc;
	*ret = cairn_take(access);
	return 0;
}

void sidecar_access_free(struct sidecar_access *access)
{
	if (!access)
		return;
	sidecar_cache_free(access->audiences);
	sidecar_cache_free(access->tokens);
	sidecar_cache_free(access->rights);
	free(access->audience);
	free(access);
}

void sidecar_access_sweep(struct sidecar_access *access)
{
	sidecar_cache_sweep(access->audiences);
	sidecar_cache_sweep(access->tokens);
	sidecar_cache_sweep(access->rights);
}

void sidecar_access_stats(struct sidecar_access *access, struct sidecar_cache_stats *ret_tokens,
			  struct sidecar_cache_stats *ret_rights)
{
	sidecar_cache_stats(access->tokens, ret_tokens);
	sidecar_cache_stats(access->rights, ret_rights);
}

/* A failure to ask: retrying helps when the API server is away, and does not
 * when it refuses us. */
static int could_not_ask(int rc, struct cairn_err *err)
{
	int code = rc == CAIRN_UNAVAILABLE || rc == CAIRN_NO_SPACE || rc == CAIRN_CANCELLED ||
				   rc == CAIRN_DEADLINE
			   ? rc
			   : CAIRN_INTERNAL;

	return cairn_err_recode(err, code);
}

/* --- the audience --- */

struct service_question {
	struct sidecar_access *access;
	const char *driver;
};

static int ask_audience(void *arg, const struct sidecar_wait *wait, struct sidecar_value **ret,
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
			 const struct sidecar_wait *wait, struct sidecar_value **held,
			 const char **ret, struct cairn_err *err)
{
	struct service_question q = {.access = access, .driver = driver};
	struct sidecar_key key = sidecar_key_of("audience", driver, NULL);
	int rc;

	if (access->audience) {
		*ret = access->audience;
		return 0;
	}
	rc = sidecar_cache_get(access->audiences, &key, ask_audience, &q, wait, held, err);
	if (rc)
		return rc;
	*ret = ((struct text *)(void *)*held)->bytes;
	return 0;
}

/* --- the token --- */

struct token_question {
	struct sidecar_access *access;
	const char *token;
	const char *audience;
};

/* What the token says of its own end, which a good token may be believed. */
static void heed_expiry(const char *token, uint64_t *until_ns)
{
	uint64_t now = cairn_now_ns() / CAIRN_NS_PER_SEC;
	uint64_t expires;
	uint64_t until;

	if (!sidecar_jwt_expiry(token, &expires))
		return;
	until = cairn_monotonic_ns();
	if (expires > now && (__builtin_mul_overflow(expires - now, CAIRN_NS_PER_SEC, &expires) ||
			      __builtin_add_overflow(until, expires, &until)))
		return;
	if (until < *until_ns)
		*until_ns = until;
}

static int ask_token(void *arg, const struct sidecar_wait *wait, struct sidecar_value **ret,
		     uint64_t *until_ns, struct cairn_err *err)
{
	const struct token_question *q = arg;
	const struct sidecar_kube *kube = &q->access->kube;
	kube_auto_json json_t *info = NULL;
	struct sidecar_user *user;
	int rc = kube->ops->review_token(kube->self, q->token, q->audience, wait, &info, err);

	if (!rc)
		rc = sidecar_user_new(info, &user, err);
	if (rc)
		return rc;
	heed_expiry(q->token, until_ns);
	*ret = &user->value;
	return 0;
}

int sidecar_access_user(struct sidecar_access *access, const char *driver, const char *token,
			const struct sidecar_wait *wait, struct sidecar_user **ret,
			struct cairn_err *err)
{
	sidecar_auto_value struct sidecar_value *held = NULL;
	struct token_question q = {.access = access, .token = token};
	struct sidecar_value *user;
	struct sidecar_key key;
	int rc = find_audience(access, driver, wait, &held, &q.audience, err);

	if (!rc) {
		key = sidecar_key_of("token", token, q.audience, NULL);
		rc = sidecar_cache_get(access->tokens, &key, ask_token, &q, wait, &user, err);
		if (rc == CAIRN_UNAUTHENTICATED)
			return cairn_err_set(err, rc, "unauthenticated user");
	}
	if (rc) {
		cairn_err_wrap(err, "failed to authenticate user");
		return could_not_ask(rc, err);
	}
	*ret = (struct sidecar_user *)(void *)user;
	return 0;
}

/* --- the right --- */

struct right_question {
	struct sidecar_access *access;
	const struct sidecar_user *user;
	const char *ns;
	const char *snapshot;
};

static int ask_right(void *arg, const struct sidecar_wait *wait, struct sidecar_value **ret,
		     uint64_t *until_ns, struct cairn_err *err)
{
	const struct right_question *q = arg;
	const struct sidecar_kube *kube = &q->access->kube;
	const struct kube_access what = {
		.verb = "get",
		.group = kube_volumesnapshots.group,
		.version = kube_volumesnapshots.version,
		.resource = kube_volumesnapshots.plural,
		.ns = q->ns,
		.name = q->snapshot,
	};
	struct kube_access_answer answer = {0};
	int rc = kube->ops->review_access(kube->self, q->user->info, &what, wait, &answer, err);

	(void)until_ns;
	if (rc == CAIRN_DENIED) /* we ourselves may not ask: that is no answer about the user */
		return cairn_err_set(err, CAIRN_INTERNAL, "the sidecar may not review access");
	if (rc)
		return rc;
	if (!answer.allowed || answer.denied)
		return cairn_err_set(err, CAIRN_DENIED, "%s", answer.reason);
	return text_new("", ret, err);
}

int sidecar_access_check(struct sidecar_access *access, const struct sidecar_user *user,
			 const char *ns, const char *snapshot, const struct sidecar_wait *wait,
			 struct cairn_err *err)
{
	struct right_question q = {.access = access, .user = user, .ns = ns, .snapshot = snapshot};
	struct sidecar_key key = sidecar_key_under(&user->key, "get", ns, snapshot, NULL);
	sidecar_auto_value struct sidecar_value *yes = NULL;
	int rc = sidecar_cache_get(access->rights, &key, ask_right, &q, wait, &yes, err);

	if (rc == CAIRN_DENIED) {
		cairn_err_wrap(err, "user does not have permissions to perform the operation");
		return rc;
	}
	if (rc) {
		cairn_err_wrap(err, "failed to authorize the user");
		return could_not_ask(rc, err);
	}
	return 0;
}
