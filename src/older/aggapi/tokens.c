/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/tokens.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "kube/digest.h"
#include "kube/kube_cache.h"
#include "kube/kube_client.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "kube/value.h"

#define ACCOUNT_PREFIX "system:serviceaccount:"
#define DRIVERS_MAX    256U
#define EXPIRY_S       600U /* the shortest lifetime that the API server issues */
#define KEEP_MS        300000U
#define REFUSAL_MS     2000U

struct aggapi_tokens {
	struct kube_client *client;
	struct kube_cache *kept;
};

/* A token as a cached value; wiped with its last reference. */
struct token {
	struct kube_value value;
	size_t n;
	char text[];
};

static void token_destroy(struct kube_value *value)
{
	struct token *token = (struct token *)(void *)value;

	explicit_bzero(token->text, token->n);
	free(token);
}

static int token_new(const char *text, struct kube_value **ret, struct cairn_err *err)
{
	size_t n = strlen(text) + 1;
	struct token *token = cairn_alloc(sizeof(*token) + n);

	if (!token)
		return cairn_err_nomem(err, "token");
	kube_value_init(&token->value, token_destroy);
	token->n = n;
	memcpy(token->text, text, n);
	*ret = &token->value;
	return 0;
}

void aggapi_audience(const char *driver, char out[AGGAPI_AUDIENCE_MAX])
{
	snprintf(out, AGGAPI_AUDIENCE_MAX, AGGAPI_AUDIENCE_PREFIX "%s", driver);
}

int aggapi_tokens_new(struct kube_client *client, struct aggapi_tokens **ret, struct cairn_err *err)
{
	cairn_cleanup(aggapi_tokens_freep) struct aggapi_tokens *tokens =
		cairn_calloc(1, sizeof(*tokens));
	const struct kube_cache_options cache = {
		.entries_max = DRIVERS_MAX, .keep_ms = KEEP_MS, .refusal_ms = REFUSAL_MS};
	int rc;

	if (!tokens)
		return cairn_err_nomem(err, "tokens");
	tokens->client = client;
	rc = kube_cache_new(&cache, &tokens->kept, err);
	if (!rc)
		*ret = cairn_take(tokens);
	return rc;
}

void aggapi_tokens_free(struct aggapi_tokens *tokens)
{
	kube_cache_free(tokens->kept);
	free(tokens);
}

/* Splits namespace and name of our account in place; false if the user is not a service
 * account. */
static bool split_account(char *user, const char **ret_ns, const char **ret_name)
{
	size_t prefix = strlen(ACCOUNT_PREFIX);
	char *colon =
		strncmp(user, ACCOUNT_PREFIX, prefix) == 0 ? strchr(user + prefix, ':') : NULL;

	if (!colon)
		return false;
	*colon = '\0';
	*ret_ns = user + prefix;
	*ret_name = colon + 1;
	return true;
}

struct token_question {
	struct aggapi_tokens *tokens;
	const char *driver;
};

static int request_token(const struct token_question *q, const char *ns, const char *account,
			 const struct kube_call *call, struct kube_value **ret,
			 struct cairn_err *err)
{
	cairn_cleanup(kube_token_done) struct kube_token token = {0};
	char audience[AGGAPI_AUDIENCE_MAX];
	const char *const audiences[] = {audience, NULL};
	const struct kube_token_request request = {
		.ns = ns, .service_account = account, .audiences = audiences, .expiry_s = EXPIRY_S};
	int rc;

	aggapi_audience(q->driver, audience);
	rc = kube_token_request(q->tokens->client, &request, call, &token, err);
	return rc ? rc : token_new(token.token, ret, err);
}

static int tokens_ask_token(void *arg, const struct kube_wait *wait, struct kube_value **ret,
			    uint64_t *until_ns, struct cairn_err *err)
{
	const struct token_question *q = arg;
	const struct kube_call call = kube_wait_call(wait);
	kube_auto_json json_t *info = NULL;
	cairn_auto_free char *user = NULL;
	const char *ns;
	const char *account;
	int rc = kube_whoami(q->tokens->client, &call, &info, err);

	(void)until_ns;
	if (rc)
		return rc;
	user = cairn_strdup(kube_str(info, "username") ? kube_str(info, "username") : "");
	if (!user)
		return cairn_err_nomem(err, "user");
	return split_account(user, &ns, &account) ? request_token(q, ns, account, &call, ret, err)
						  : token_new("", ret, err);
}

int aggapi_tokens_get(struct aggapi_tokens *tokens, const char *driver,
		      const struct kube_wait *wait, char **ret, struct cairn_err *err)
{
	struct token_question q = {.tokens = tokens, .driver = driver};
	struct kube_digest key = kube_digest_of("driver", driver, NULL);
	kube_auto_value struct kube_value *value = NULL;
	int rc = kube_cache_get(tokens->kept, &key, tokens_ask_token, &q, wait, &value, err);

	if (rc) {
		cairn_err_wrap(err, "token for the sidecar of '%s'", driver);
		/* Our own account was refused, not the caller. */
		return rc == CAIRN_DENIED || rc == CAIRN_NOT_FOUND || rc == CAIRN_UNAUTHENTICATED
			       ? cairn_err_recode(err, CAIRN_INTERNAL)
			       : rc;
	}
	*ret = cairn_strdup(((struct token *)(void *)value)->text);
	return *ret ? 0 : cairn_err_nomem(err, "token");
}
