/* SPDX-License-Identifier: Apache-2.0 */

/* The structs behind cairn/client.h. */
#ifndef CAIRN_CLIENT_HANDLE_H
#define CAIRN_CLIENT_HANDLE_H

#include <pthread.h>
#include <stdbool.h>

#include <cairn/client.h>

#include "base/err.h"
#include "client/client_link.h"
#include "client/cursor.h"
#include "client/retry.h"
#include "client/route.h"
#include "client/token.h"

struct net_rpc;

#define CLIENT_OPTION_STRINGS 12
#define CLIENT_QUERY_STRINGS  4

/* Immutable after creation, except for members with their own locks. */
struct cairn_client {
	struct cairn_client_options options;
	char *owned[CLIENT_OPTION_STRINGS];
	struct kube_client *kube; /* NULL if the options make it unnecessary */
	struct client_links links;
	struct client_tokens tokens;
};

/* Belongs to the thread that calls cairn_listing_next(); the lock guards what other
 * threads use. */
struct cairn_listing {
	struct cairn_client *client;
	struct cairn_listing_query query;
	char *owned[CLIENT_QUERY_STRINGS];
	struct client_cursor cursor;
	struct client_retry retry;
	struct client_route route;
	struct client_link *link;
	enum client_token_need need;
	bool fell_back;
	bool ended;
	int result;            /* valid once ended */
	struct cairn_err last; /* the error of `result` */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* Guarded by the lock. */
	struct net_rpc *rpc;
	bool cancelled;
	struct cairn_listing_info seen;
};

#endif
