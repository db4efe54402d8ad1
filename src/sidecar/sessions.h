/* SPDX-License-Identifier: Apache-2.0 */

/* Sessions that callers of the session flavour may use.
 *
 * A session is a SnapshotSessionData in the sidecar's own namespace, whose name is
 * the token. All of them are watched: a guess costs no call to the API server.
 * They are looked up by a hash of the token, so that the time it takes says
 * nothing about how near a guess was.
 *
 * A session that was made just now may be on its way here: a few callers at a
 * time may wait a moment for theirs.
 *
 * Thread-safe.
 */
#ifndef CAIRN_SIDECAR_SESSIONS_H
#define CAIRN_SIDECAR_SESSIONS_H

#include <jansson.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_client;
struct sidecar_sessions;
struct kube_wait;

/* Callers that may wait at once, and how long. */
#define SIDECAR_SESSIONS_WAITING 16U
#define SIDECAR_SESSIONS_WAIT_MS 500U

/* Begins to watch in `ns` (NULL: the client's); the client is borrowed. */
int sidecar_sessions_new(struct kube_client *client, const char *ns, struct sidecar_sessions **ret,
			 struct cairn_err *err);
void sidecar_sessions_free(struct sidecar_sessions *sessions); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_sessions, sidecar_sessions_free);

/* The SnapshotSessionData of a token; the caller's reference.
 *
 * CAIRN_UNAUTHENTICATED  there is none, or its time is over
 * CAIRN_UNAVAILABLE      it is not here, and sessions are not watched at present
 * or the codes of kube_wait_check()
 */
int sidecar_sessions_find(struct sidecar_sessions *sessions, const char *token,
			  const struct kube_wait *wait, json_t **ret, struct cairn_err *err);

#endif
