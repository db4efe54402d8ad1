/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/authz_cache.h"

#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/auth.h"
#include "kube/digest.h"
#include "kube/fair_queue.h"
#include "kube/jwt.h"
#include "kube/kube_cache.h"
#include "kube/kube_client.h"
#include "kube/kube_resource.h"
#include "kube/kube_snapshot.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "kube/user.h"
#include "kube/value.h"

#define KEEP_DEFAULT_MS    10000U
#define REFUSAL_DEFAULT_MS 2000U

/* Concurrent reviews, and callers that wait for one: in total, and of one address or user.
 * One address or user gets at most half, so it cannot take all places. */
#define QUESTIONS              32U
#define QUESTIONS_EACH         16U
#define QUESTIONS_WAITING      1024U
#define QUESTIONS_WAITING_EACH 512U

struct kube_authz_cache {
	struct kube_authz_cache_options options;
	struct kube_fair_queue *turns; /* NULL if the reviewer queues them */
	struct kube_cache *tokens;
	struct kube_cache *rights;
};

struct kube_authz_cache_options kube_authz_cache_defaults(struct kube_client *client)
{
	return (struct kube_authz_cache_options){
		.reviewer = kube_client_reviewer(client),
		.client = client,
		.keep_ms = KEEP_DEFAULT_MS,
		.refusal_ms = REFUSAL_DEFAULT_MS,
		.turns = true,
	};
}

int kube_authz_cache_new(const struct kube_authz_cache_options *options,
			 struct kube_authz_cache **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_authz_cache_freep) struct kube_authz_cache *guard =
		cairn_calloc(1, sizeof(*guard));
	const struct kube_cache_options cache = {
		.entries_max = KUBE_GUARD_ENTRIES_MAX,
		.keep_ms = options->keep_ms,
		.refusal_ms = options->refusal_ms,
	};
	const struct kube_fair_queue_options turns = {
		.what = "questions to the API server",
		.total = QUESTIONS,
		.each = QUESTIONS_EACH,
		.waiting = QUESTIONS_WAITING,
		.waiting_each = QUESTIONS_WAITING_EACH,
	};
	int rc;

	if (!guard)
		return cairn_err_nomem(err, "guard");
	guard->options = *options;
	rc = kube_cache_new(&cache, &guard->tokens, err);
	if (!rc)
		rc = kube_cache_new(&cache, &guard->rights, err);
	if (!rc && options->turns)
		rc = kube_fair_queue_new(&turns, &guard->turns, err);
	if (rc)
		return rc;
	*ret = cairn_take(guard);
	return 0;
}

void kube_authz_cache_free(struct kube_authz_cache *guard)
{
	if (!guard)
		return;
	kube_cache_free(guard->tokens);
	kube_cache_free(guard->rights);
	kube_fair_queue_free(guard->turns);
	free(guard);
}

void kube_authz_cache_sweep(struct kube_authz_cache *guard)
{
	kube_cache_sweep(guard->tokens);
	kube_cache_sweep(guard->rights);
}

void kube_authz_cache_stats(struct kube_authz_cache *guard, struct kube_cache_stats *ret_tokens,
			    struct kube_cache_stats *ret_rights)
{
	kube_cache_stats(guard->tokens, ret_tokens);
	kube_cache_stats(guard->rights, ret_rights);
}

static int take_turn(struct kube_authz_cache *guard, const struct kube_digest *owner,
		     const struct kube_wait *wait, struct kube_fair_pass *pass,
		     struct cairn_err *err)
{
	return guard->turns && owner ? kube_fair_queue_enter(guard->turns, owner, wait, pass, err)
				     : 0;
}

int kube_authz_cache_could_not_ask(int rc, struct cairn_err *err)
{
	int code = rc == CAIRN_UNAVAILABLE || rc == CAIRN_NO_SPACE || rc == CAIRN_CANCELLED ||
				   rc == CAIRN_DEADLINE
			   ? rc
			   : CAIRN_INTERNAL;

	return cairn_err_recode(err, code);
}

/* --- the token --- */

struct token_question {
	struct kube_authz_cache *guard;
	const char *token;
	const char *audience;
};

/* Limits the caching of an accepted token to its own expiry. */
static void heed_expiry(const char *token, uint64_t *until_ns)
{
	uint64_t now = cairn_now_ns() / CAIRN_NS_PER_SEC;
	uint64_t expires;
	uint64_t until;

	if (!kube_jwt_expiry(token, &expires))
		return;
	/* The expiry is a time of the wall clock, the cache keeps time of the monotonic one:
	 * only the remaining time is carried over. */
	until = cairn_monotonic_ns();
	if (expires > now && (__builtin_mul_overflow(expires - now, CAIRN_NS_PER_SEC, &expires) ||
			      __builtin_add_overflow(until, expires, &until)))
		return;
	if (until < *until_ns)
		*until_ns = until;
}

static int authz_cache_ask_token(void *arg, const struct kube_wait *wait, struct kube_value **ret,
				 uint64_t *until_ns, struct cairn_err *err)
{
	const struct token_question *q = arg;
	const struct kube_reviewer *reviewer = &q->guard->options.reviewer;
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass pass = {0};
	kube_auto_json json_t *info = NULL;
	struct kube_user *user;
	int rc = take_turn(q->guard, wait->origin, wait, &pass, err);

	if (!rc)
		rc = reviewer->ops->review_token(reviewer->self, q->token, q->audience, wait, &info,
						 err);
	if (!rc)
		rc = kube_user_new(info, &user, err);
	if (rc)
		return rc;
	heed_expiry(q->token, until_ns);
	*ret = &user->value;
	return 0;
}

/* A string that cannot be a token is rejected without a review: JSON cannot carry it. */
static bool could_be_token(const char *token)
{
	size_t n = strnlen(token, KUBE_GUARD_TOKEN_MAX + 1);

	return n > 0 && n <= KUBE_GUARD_TOKEN_MAX && cairn_utf8_valid(token, n);
}

int kube_authz_cache_user(struct kube_authz_cache *guard, const char *token, const char *audience,
			  const struct kube_wait *wait, struct kube_user **ret,
			  struct cairn_err *err)
{
	const char *wanted = audience && audience[0] ? audience : NULL;
	struct token_question q = {.guard = guard, .token = token, .audience = wanted};
	struct kube_value *user;
	struct kube_digest key;
	int rc;

	if (!token || !token[0])
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "a bearer token is required");
	if (!could_be_token(token))
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "the token is not valid here");
	key = kube_digest_of("token", token, wanted ? wanted : "", NULL);
	rc = kube_cache_get(guard->tokens, &key, authz_cache_ask_token, &q, wait, &user, err);
	if (rc == CAIRN_UNAUTHENTICATED)
		return cairn_err_set(err, rc, "the token is not valid here");
	if (rc) {
		cairn_err_wrap(err, "the token cannot be checked");
		return kube_authz_cache_could_not_ask(rc, err);
	}
	*ret = (struct kube_user *)(void *)user;
	return 0;
}

/* --- the right --- */

struct right_question {
	struct kube_authz_cache *guard;
	const struct kube_user *user;
	const struct kube_access *what;
};

/* A positive answer, which has no contents. */
static void yes_destroy(struct kube_value *value)
{
	free(value);
}

static int authz_cache_deny(const struct right_question *q, const char *reason,
			    struct cairn_err *err)
{
	const struct kube_access *what = q->what;

	if (reason[0])
		return cairn_err_set(err, CAIRN_DENIED, "%s", reason);
	if (what->path)
		return cairn_err_set(err, CAIRN_DENIED, "user '%s' may not %s '%s'", q->user->name,
				     what->verb, what->path);
	return cairn_err_set(err, CAIRN_DENIED, "user '%s' may not %s %s%s%s '%s' in '%s'",
			     q->user->name, what->verb, what->resource ? what->resource : "",
			     what->group && what->group[0] ? "." : "",
			     what->group ? what->group : "", what->name ? what->name : "",
			     what->ns ? what->ns : "");
}

static int ask_right(void *arg, const struct kube_wait *wait, struct kube_value **ret,
		     uint64_t *until_ns, struct cairn_err *err)
{
	const struct right_question *q = arg;
	const struct kube_reviewer *reviewer = &q->guard->options.reviewer;
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass pass = {0};
	struct kube_access_answer answer = {0};
	struct kube_value *yes;
	int rc = take_turn(q->guard, wait->origin, wait, &pass, err);

	(void)until_ns;
	if (!rc)
		rc = reviewer->ops->review_access(reviewer->self, q->user->info, q->what, wait,
						  &answer, err);
	if (rc == CAIRN_DENIED || rc == CAIRN_UNAUTHENTICATED) /* our own account may not create
	                                                        * reviews */
		return cairn_err_recode(err, CAIRN_INTERNAL);
	if (rc)
		return rc;
	if (!answer.allowed || answer.denied)
		return authz_cache_deny(q, answer.reason, err);
	yes = cairn_alloc(sizeof(*yes));
	if (!yes)
		return cairn_err_nomem(err, "right");
	kube_value_init(yes, yes_destroy);
	*ret = yes;
	return 0;
}

static const char *authz_cache_text(const char *maybe)
{
	return maybe ? maybe : "";
}

int kube_authz_cache_access(struct kube_authz_cache *guard, const struct kube_user *user,
			    const struct kube_access *what, const struct kube_wait *wait,
			    struct cairn_err *err)
{
	struct right_question q = {.guard = guard, .user = user, .what = what};
	struct kube_digest key = kube_digest_under(
		&user->key, authz_cache_text(what->verb), authz_cache_text(what->group),
		authz_cache_text(what->version), authz_cache_text(what->resource),
		authz_cache_text(what->subresource), authz_cache_text(what->ns),
		authz_cache_text(what->name), what->path ? "path" : "",
		authz_cache_text(what->path), NULL);
	kube_auto_value struct kube_value *yes = NULL;
	int rc = kube_cache_get(guard->rights, &key, ask_right, &q, wait, &yes, err);

	if (rc == CAIRN_DENIED || rc == 0)
		return rc;
	cairn_err_wrap(err, "the permission cannot be checked");
	return kube_authz_cache_could_not_ask(rc, err);
}

int kube_authz_cache_may_read(struct kube_authz_cache *guard, const struct kube_user *user,
			      const char *ns, const char *name, const struct kube_wait *wait,
			      struct cairn_err *err)
{
	const struct kube_access what = {
		.verb = "get",
		.group = kube_volumesnapshots.group,
		.version = kube_volumesnapshots.version,
		.resource = kube_volumesnapshots.plural,
		.ns = ns,
		.name = name,
	};

	return kube_authz_cache_access(guard, user, &what, wait, err);
}

int kube_authz_cache_snapshot(struct kube_authz_cache *guard, const struct kube_user *user,
			      const char *ns, const char *name, const struct kube_wait *wait,
			      struct kube_snapshot *ret, struct cairn_err *err)
{
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass pass = {0};
	const struct kube_call call = kube_wait_call(wait);
	int rc = kube_authz_cache_may_read(guard, user, ns, name, wait, err);

	if (!rc)
		rc = take_turn(guard, &user->who, wait, &pass, err);
	return rc ? rc : kube_snapshot_get(guard->options.client, ns, name, &call, ret, err);
}

const char *kube_bearer_token(const char *authorization)
{
	if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
		return NULL;
	return authorization + 7 + strspn(authorization + 7, " ");
}
