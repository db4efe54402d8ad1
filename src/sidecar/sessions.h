/* SPDX-License-Identifier: Apache-2.0 */

/* Sessions of callers that use the session flavour.
 *
 * A session is a SnapshotSessionData in the sidecar's own namespace, whose name is the
 * token. All of them are watched, so a guessed token causes no call to the API server.
 * They are looked up by a hash of the token, so that the lookup time does not reveal how
 * close a guess was.
 *
 * A session that was just created may not have arrived yet: a limited number of callers
 * may wait briefly for theirs, and of one address only a few, so that guesses from some addresses
 * leave room for others. A token that cannot be a name is refused at once.
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

/* Limits of waiting callers, in all and of one address, and their timeout. */
#define SIDECAR_SESSIONS_WAITING      64U
#define SIDECAR_SESSIONS_WAITING_EACH 8U
#define SIDECAR_SESSIONS_WAIT_MS      500U

/* Starts watching in `ns` (NULL: the client's); the client is borrowed. */
int sidecar_sessions_new(struct kube_client *client, const char *ns, struct sidecar_sessions **ret,
			 struct cairn_err *err);
void sidecar_sessions_free(struct sidecar_sessions *sessions); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_sessions, sidecar_sessions_free);

/* Returns the SnapshotSessionData of a token; the caller's reference. The origin of `wait` is the
 * caller's address.
 *
 * CAIRN_UNAUTHENTICATED  there is none, or it has expired
 * CAIRN_UNAVAILABLE      not found, and the watch is interrupted or too many callers wait
 * or the codes of kube_wait_check()
 */
int sidecar_sessions_find(struct sidecar_sessions *sessions, const char *token,
			  const struct kube_wait *wait, json_t **ret, struct cairn_err *err);

#endif
