/* SPDX-License-Identifier: Apache-2.0 */

/* Serves the kinds of passed_kinds.h: sends requests on to the version at which they are
 * stored, and answers with the version of this server.
 *
 * Requests are sent with this server's own account, after the user's rights were checked:
 * the right to what is asked (by aggapi_server.c), to create what an apply creates, and to
 * `get` each VolumeSnapshot that a SnapshotSessionRequest names, because the webhook that
 * asks for it sees this server's account.
 *
 * Answers are streamed; a slow reader holds KUBE_FORWARD_UNREAD_MAX bytes. Watches end when
 * their caller leaves or the server stops. */
#ifndef CAIRN_AGGAPI_PASS_H
#define CAIRN_AGGAPI_PASS_H

#include "base/cleanup.h"

struct aggapi_passer;
struct aggapi_refusal;
struct aggapi_request;
struct aggapi_server_options;
struct cairn_err;

int aggapi_passer_new(const struct aggapi_server_options *options, struct aggapi_passer **ret,
		      struct cairn_err *err);
void aggapi_passer_free(struct aggapi_passer *passer);
CAIRN_DEFINE_CLEANUP(struct aggapi_passer, aggapi_passer_free);

/* Ends all watches. From any thread. */
void aggapi_passer_stop(struct aggapi_passer *passer);

/* The user is authenticated, and authorized for the verb on the path. */
int aggapi_pass(struct aggapi_passer *passer, const struct aggapi_request *asked,
		struct aggapi_refusal *refusal, struct cairn_err *err);

#endif
