/* SPDX-License-Identifier: Apache-2.0 */

/* Where the tokens of a client come from.
 *
 * Text, a file and a function are asked each time. A TokenRequest is made for
 * the first stream and again when half of the token's life is over, and also
 * for every stream that takes a broken one up again; should Kubernetes not
 * answer then, a token that is still good is used, unless it was just refused.
 * Tokens are never logged, and their memory is overwritten.
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

/* Real ones have one or two thousand bytes; what a file or a peer may hand us. */
#define CLIENT_TOKEN_MAX (64U << 10)

#define CLIENT_TOKEN_EXPIRY_DEFAULT 600

struct client_tokens {
	const struct cairn_client_options *options; /* borrowed */
	struct kube_client *kube;                   /* borrowed; NULL: not needed */

	pthread_mutex_t lock; /* guards what follows; held while Kubernetes is asked */
	struct client_account account;
	char *token, *audience;
	uint64_t half_ns, end_ns; /* when half of its life is over, and all of it */
};

void client_tokens_init(struct client_tokens *tokens, const struct cairn_client_options *options,
			struct kube_client *kube);
void client_tokens_done(struct client_tokens *tokens);

enum client_token_need {
	CLIENT_TOKEN_ANY,     /* for a first stream */
	CLIENT_TOKEN_FRESH,   /* a stream broke */
	CLIENT_TOKEN_REFUSED, /* the last one was refused */
};

/* A token for `audience`, owned by the caller, who frees it with
 * client_token_freep(). From any thread. */
int client_token_get(struct client_tokens *tokens, const struct kube_call *how,
		     const char *audience, enum client_token_need need, char **ret,
		     struct cairn_err *err);

/* Overwrites and frees. */
void client_token_freep(char **token);

#endif
