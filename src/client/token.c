/* SPDX-License-Identifier: Apache-2.0 */

#include "client/token.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/lock.h"
#include "base/mem.h"
#include "kube/auth.h"

void client_token_freep(char **token)
{
	if (*token)
		explicit_bzero(*token, strlen(*token));
	free(*token);
	*token = NULL;
}

void client_tokens_init(struct client_tokens *tokens, const struct cairn_client_options *options,
			struct kube_client *kube)
{
	*tokens = (struct client_tokens){.options = options, .kube = kube};
	pthread_mutex_init(&tokens->lock, NULL);
}

void client_tokens_done(struct client_tokens *tokens)
{
	client_token_freep(&tokens->token);
	free(tokens->audience);
	client_account_done(&tokens->account);
	pthread_mutex_destroy(&tokens->lock);
}

static int from_function(const struct cairn_client_options *o, const char *audience, char **ret,
			 struct cairn_err *err)
{
	cairn_cleanup(client_token_freep) char *token = cairn_calloc(1, CLIENT_TOKEN_MAX);
	int rc;

	if (!token)
		return cairn_err_nomem(err, "token");
	rc = o->token_fn(o->token_arg, audience, token, CLIENT_TOKEN_MAX);
	if (rc < 0)
		return cairn_err_set(err, rc < CAIRN_UNAUTHENTICATED ? CAIRN_UNKNOWN : rc,
				     "the application has no token");
	token[CLIENT_TOKEN_MAX - 1] = '\0';
	*ret = cairn_take(token);
	return 0;
}

static int token_from_file(const char *path, char **ret, struct cairn_err *err)
{
	cairn_cleanup(client_token_freep) char *token = NULL;
	size_t n;
	int rc = cairn_file_read(AT_FDCWD, path, CLIENT_TOKEN_MAX, &token, &n, err);

	if (rc)
		return cairn_err_wrap(err, "token file");
	while (n > 0 && isspace((unsigned char)token[n - 1]))
		token[--n] = '\0';
	if (n == 0 || strlen(token) != n)
		return cairn_err_set(err, CAIRN_INVALID, "token file '%s' holds no token", path);
	*ret = cairn_take(token);
	return 0;
}

static int token_copy(const char *token, char **ret, struct cairn_err *err)
{
	char *made = cairn_strdup(token);

	if (!made)
		return cairn_err_nomem(err, "token");
	*ret = made;
	return 0;
}

/* --- TokenRequest; all with the lock held --- */

static int know_account(struct client_tokens *tokens, const struct kube_call *how,
			struct cairn_err *err)
{
	const struct cairn_client_options *o = tokens->options;
	struct client_account account = {0};
	int rc = 0;

	if (tokens->account.name)
		return 0;
	if (!o->service_account) {
		rc = client_discover_account(tokens->kube, how, &account, err);
	} else {
		account.namespace_name = cairn_strdup(o->service_account_namespace);
		account.name = cairn_strdup(o->service_account);
		if (!account.namespace_name || !account.name)
			rc = cairn_err_nomem(err, "service account");
	}
	if (rc) {
		client_account_done(&account);
		return rc;
	}
	tokens->account = account;
	return 0;
}

static bool token_fits(const struct client_tokens *tokens, const char *audience, uint64_t until_ns)
{
	return tokens->token && strcmp(tokens->audience, audience) == 0 &&
	       cairn_monotonic_ns() < until_ns;
}

/* The remaining lifetime of a token, by the wall clock, in which its expiry is given. */
static uint64_t life_ns(const struct kube_token *token)
{
	uint64_t now = cairn_now_ns();

	return token->expires_ns > now ? token->expires_ns - now : 0;
}

static int token_request(struct client_tokens *tokens, const struct kube_call *how,
			 const char *audience, struct cairn_err *err)
{
	uint64_t expiry = tokens->options->token_expiry_seconds;
	const char *const audiences[] = {audience, NULL};
	struct kube_token_request wanted = {
		.audiences = audiences,
		.expiry_s = expiry ? expiry : CLIENT_TOKEN_EXPIRY_DEFAULT,
	};
	cairn_cleanup(kube_token_done) struct kube_token token = {0};
	cairn_auto_free char *name = cairn_strdup(audience);
	uint64_t now = cairn_monotonic_ns(); /* before the request: the token is no younger */
	int rc = name ? know_account(tokens, how, err) : cairn_err_nomem(err, "token");

	if (rc)
		return rc;
	wanted.ns = tokens->account.namespace_name;
	wanted.service_account = tokens->account.name;
	rc = kube_token_request(tokens->kube, &wanted, how, &token, err);
	if (rc)
		return cairn_err_wrap(err, "token of service account %s/%s", wanted.ns,
				      wanted.service_account);
	client_token_freep(&tokens->token);
	free(tokens->audience);
	tokens->token = cairn_take(token.token);
	tokens->audience = cairn_take(name);
	tokens->end_ns = now + life_ns(&token);
	tokens->half_ns = now + life_ns(&token) / 2;
	return 0;
}

static int from_kubernetes(struct client_tokens *tokens, const struct kube_call *how,
			   const char *audience, enum client_token_need need, char **ret,
			   struct cairn_err *err)
{
	int rc;

	if (!tokens->kube)
		return cairn_err_set(err, CAIRN_INVALID, "no source for a token is configured");
	cairn_scoped_lock(&tokens->lock);
	if (need == CLIENT_TOKEN_ANY && token_fits(tokens, audience, tokens->half_ns))
		return token_copy(tokens->token, ret, err);
	rc = token_request(tokens, how, audience, err);
	/* In the second half of its life the old token still works if a new one cannot be had. */
	if (rc && (need == CLIENT_TOKEN_REFUSED || !token_fits(tokens, audience, tokens->end_ns)))
		return rc;
	return token_copy(tokens->token, ret, err);
}

int client_token_get(struct client_tokens *tokens, const struct kube_call *how,
		     const char *audience, enum client_token_need need, char **ret,
		     struct cairn_err *err)
{
	const struct cairn_client_options *o = tokens->options;

	if (o->token_fn)
		return from_function(o, audience, ret, err);
	if (o->token_file)
		return token_from_file(o->token_file, ret, err);
	if (o->token)
		return token_copy(o->token, ret, err);
	return from_kubernetes(tokens, how, audience ? audience : "", need, ret, err);
}
