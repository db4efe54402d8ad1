/* SPDX-License-Identifier: Apache-2.0 */

/* The HTTP route that returns the data of changed blocks: POST /v1/block with
 * {"token": "TOKEN"}, a data token of data_holder.h.
 *
 * Only the user that the token was made for may read: the user sends a bearer token of their
 * own, and the permission to `get` the VolumeSnapshots is checked again.
 */
#ifndef CAIRN_DATA_SERVER_H
#define CAIRN_DATA_SERVER_H

#include "older/data/data_block.h"

struct cairn_err;
struct kube_authz_cache;
struct net_http;

#define DATA_SERVER_PATH     "/v1/block"
#define DATA_SERVER_BODY_MAX 8192U

struct data_server_options {
	struct kube_authz_cache *guard;
	const char *audience; /* of tokens; NULL: the API server's */

	/* Reads from the driver, as data_block_get(). */
	int (*read)(void *arg, const char *token, const char *holder, data_piece_fn piece,
		    void *piece_arg, struct cairn_err *err);
	/* Counts the request; may be NULL. */
	void (*note)(void *arg, int rc, const struct cairn_err *why);
	void *arg;
};

int data_server_handle(const struct data_server_options *options, struct net_http *http,
		       struct cairn_err *err);

#endif
