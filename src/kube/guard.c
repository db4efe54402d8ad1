/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/guard.h"

#include <pthread.h>
#include <string.h>
#include <strings.h>

#include <openssl/evp.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/random.h"
#include "kube/auth.h"
#include "kube/object.h"

#define KEEP_DEFAULT_MS    10000U
#define REFUSAL_DEFAULT_MS 2000U
#define KEY_BYTES          32U

struct key {
	uint8_t bytes[KEY_BYTES];
};

/* What was answered; `code` 0 is yes. */
struct place {
	struct key key;
	uint64_t until_ns; /* 0: empty */
	int code;
	json_t *user; /* of a good token */
};

struct kube_guard {
	struct kube_client *client;
	char *audience; /* NULL: those of the API server */
	uint64_t keep_ns;
	uint64_t refusal_ns;
	uint8_t salt[KEY_BYTES];

	pthread_mutex_t lock; /* guards both */
	struct place *tokens;
	struct place *rights;
};

int kube_guard_new(struct kube_client *client, const struct kube_guard_options *options,
		   struct kube_guard **ret, struct cairn_err *err)
{
	cairn_cleanup(kube_guard_freep) struct kube_guard *guard = cairn_calloc(1, sizeof(*guard));
	uint64_t keep = options->keep_ms ? options->keep_ms : KEEP_DEFAULT_MS;
	uint64_t refusal = options->refusal_ms ? options->refusal_ms : REFUSAL_DEFAULT_MS;
	bool named = options->audience && options->audience[0];
	int rc;

	if (!guard)
		return cairn_err_nomem(err, "guard");
	pthread_mutex_init(&guard->lock, NULL);
	guard->client = client;
	guard->keep_ns = keep * CAIRN_NS_PER_MS;
	guard->refusal_ns = refusal * CAIRN_NS_PER_MS;
	guard->tokens = cairn_calloc(KUBE_GUARD_PLACES, sizeof(struct place));
	guard->rights = cairn_calloc(KUBE_GUARD_PLACES, sizeof(struct place));
	guard->audience = named ? cairn_strdup(options->audience) : NULL;
	if (!guard->tokens || !guard->rights || (named && !guard->audience))
		return cairn_err_nomem(err, "guard");
	rc = cairn_random_bytes(guard->salt, sizeof(guard->salt), err);
	if (rc)
		return rc;
	*ret = cairn_take(guard);
	return 0;
}

void kube_guard_free(struct kube_guard *guard)
{
	if (!guard)
		return;
	for (size_t i = 0; i < KUBE_GUARD_PLACES && guard->tokens; i++)
		json_decref(guard->tokens[i].user);
	free(guard->tokens);
	free(guard->rights);
	free(guard->audience);
	pthread_mutex_destroy(&guard->lock);
	free(guard);
}

/* Each part with its NUL, so that ("a", "bc") and ("ab", "c") differ. */
static int make_key(const struct kube_guard *guard, const char *const parts[], size_t n,
		    struct key *ret, struct cairn_err *err)
{
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	bool good = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 &&
		    EVP_DigestUpdate(hash, guard->salt, sizeof(guard->salt)) == 1;

	for (size_t i = 0; i < n && good; i++) {
		const char *part = parts[i] ? parts[i] : "";

		good = EVP_DigestUpdate(hash, part, strlen(part) + 1) == 1;
	}
	good = good && EVP_DigestFinal_ex(hash, ret->bytes, NULL) == 1;
	EVP_MD_CTX_free(hash);
	return good ? 0 : cairn_err_nomem(err, "guard");
}

/* A key's hash is as random as any: its first bytes choose the place. */
static struct place *place_of(struct place *places, const struct key *key)
{
	uint32_t number;

	memcpy(&number, key->bytes, sizeof(number));
	return &places[number % KUBE_GUARD_PLACES];
}

/* True when the answer is known; *ret_user (may be NULL) is then a reference. */
static bool recall(struct kube_guard *guard, struct place *places, const struct key *key,
		   int *ret_code, json_t **ret_user)
{
	cairn_scoped_lock(&guard->lock);
	const struct place *place = place_of(places, key);

	if (place->until_ns <= cairn_monotonic_ns() || memcmp(&place->key, key, sizeof(*key)) != 0)
		return false;
	*ret_code = place->code;
	if (ret_user)
		*ret_user = json_incref(place->user);
	return true;
}

static void remember(struct kube_guard *guard, struct place *places, const struct key *key,
		     int code, json_t *user)
{
	cairn_scoped_lock(&guard->lock);
	struct place *place = place_of(places, key);

	json_decref(place->user);
	*place = (struct place){
		.key = *key,
		.until_ns = cairn_monotonic_ns() + (code ? guard->refusal_ns : guard->keep_ns),
		.code = code,
		.user = json_incref(user),
	};
}

static int refuse_token(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "the token is not valid here");
}

static int ask_user(struct kube_guard *guard, const char *token, const struct kube_call *how,
		    json_t **ret, struct cairn_err *err)
{
	const char *const audiences[] = {guard->audience, NULL};
	struct kube_token_review review = {0};
	bool good;
	int rc = kube_token_review(guard->client, token, audiences, how, &review, err);

	if (rc)
		return cairn_err_wrap(err, "the token can not be checked");
	good = review.authenticated && review.user &&
	       (!guard->audience || kube_token_review_has(&review, guard->audience));
	if (good)
		*ret = kube_copy(review.user);
	kube_token_review_done(&review);
	if (good && !*ret)
		return cairn_err_nomem(err, "user");
	return good ? 0 : refuse_token(err);
}

int kube_guard_user(struct kube_guard *guard, const char *token, const struct kube_call *how,
		    json_t **ret_user, struct cairn_err *err)
{
	kube_auto_json json_t *user = NULL;
	struct key key;
	int code;
	int rc;

	if (!token || !token[0])
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED, "a bearer token is needed");
	if (strnlen(token, KUBE_GUARD_TOKEN_MAX + 1) > KUBE_GUARD_TOKEN_MAX)
		return refuse_token(err);
	rc = make_key(guard, &token, 1, &key, err);
	if (rc)
		return rc;
	if (recall(guard, guard->tokens, &key, &code, &user)) {
		if (code)
			return refuse_token(err);
	} else {
		rc = ask_user(guard, token, how, &user, err);
		if (rc == 0 || rc == CAIRN_UNAUTHENTICATED)
			remember(guard, guard->tokens, &key, rc, user);
		if (rc)
			return rc;
	}
	*ret_user = cairn_take(user);
	return 0;
}

static int deny(const json_t *user, const struct kube_access *what, struct cairn_err *err)
{
	const char *name = kube_str(user, "username");

	return cairn_err_set(err, CAIRN_DENIED, "user '%s' may not %s %s.%s '%s' in '%s'",
			     name ? name : "", what->verb, what->resource ? what->resource : "",
			     what->group ? what->group : "", what->name ? what->name : "",
			     what->ns ? what->ns : "");
}

int kube_guard_access(struct kube_guard *guard, const json_t *user, const struct kube_access *what,
		      const struct kube_call *how, struct cairn_err *err)
{
	cairn_auto_free char *who = kube_json_text(user, NULL);
	const char *const parts[] = {who,           what->verb,     what->group,
				     what->version, what->resource, what->subresource,
				     what->ns,      what->name,     what->path};
	struct kube_access_answer answer = {0};
	struct key key;
	int code;
	int rc = who ? make_key(guard, parts, sizeof(parts) / sizeof(parts[0]), &key, err)
		     : cairn_err_nomem(err, "guard");

	if (rc)
		return rc;
	if (!recall(guard, guard->rights, &key, &code, NULL)) {
		rc = kube_access_review(guard->client, user, what, how, &answer, err);
		if (rc)
			return cairn_err_wrap(err, "the right can not be checked");
		code = answer.allowed ? 0 : CAIRN_DENIED;
		remember(guard, guard->rights, &key, code, NULL);
	}
	return code ? deny(user, what, err) : 0;
}

const char *kube_bearer_token(const char *authorization)
{
	if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
		return NULL;
	return authorization + 7 + strspn(authorization + 7, " ");
}
