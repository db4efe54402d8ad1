/* SPDX-License-Identifier: Apache-2.0 */

/* The source of a client's tokens.
 *
 * A string, a file or a callback is read each time. A TokenRequest is made for the first
 * stream, again after half of the token's lifetime, and for every stream that resumes a
 * broken one. If Kubernetes does not answer then, a token that is still valid is used,
 * unless it was just rejected. Tokens are never logged, and their memory is overwritten.
 */
#ifndef CAIRN_CLIENT_TOKEN_H
#define CAIRN_CLIENT_TOKEN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cairn/client.h>

#include "client/discover.h"

struct cairn_err;
struct kube_call;
struct kube_client;

/* Limit of a token from a file or a peer; real ones have one or two thousand bytes. */
#define CLIENT_TOKEN_MAX (64U << 10)

#define CLIENT_TOKEN_EXPIRY_DEFAULT 600

struct client_tokens {
	const struct cairn_client_options *options; /* borrowed */
	struct kube_client *kube;                   /* borrowed; NULL if not needed */

	pthread_mutex_t lock; /* guards the fields below; held during calls to Kubernetes */
	struct client_account account;
	char *token, *audience;
	uint64_t half_ns, end_ns; /* when half of its lifetime is over, and all of it */
};

void client_tokens_init(struct client_tokens *tokens, const struct cairn_client_options *options,
			struct kube_client *kube);
void client_tokens_done(struct client_tokens *tokens);

enum client_token_need {
	CLIENT_TOKEN_ANY,     /* for a first stream */
	CLIENT_TOKEN_FRESH,   /* a stream broke */
	CLIENT_TOKEN_REFUSED, /* the last one was rejected */
};

/* Returns a token for `audience`, which the caller frees with client_token_freep(). From
 * any thread. */
int client_token_get(struct client_tokens *tokens, const struct kube_call *how,
		     const char *audience, enum client_token_need need, char **ret,
		     struct cairn_err *err);

/* Overwrites and frees. */
void client_token_freep(char **token);

#endif
