/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/sessions.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/digest.h"
#include "kube/fair_queue.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/kube_client.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "kube/timestamp.h"

#define INDEX     "hash"
#define HASH_TEXT (2 * KUBE_DIGEST_BYTES)
#define LOOK_MS   20U

/* Limit of object names, and therefore of tokens. */
#define TOKEN_MAX 253U

struct sidecar_sessions {
	struct kube_informer *informer;
	struct kube_fair_queue *waiting; /* by address; nobody waits for a place */
};

static void hash_of(const char *token, char out[HASH_TEXT + 1])
{
	static const char digits[] = "0123456789abcdef";
	struct kube_digest key = kube_digest_of("session", token, NULL);

	for (size_t i = 0; i < KUBE_DIGEST_BYTES; i++) {
		out[2 * i] = digits[key.bytes[i] >> 4];
		out[2 * i + 1] = digits[key.bytes[i] & 15];
	}
	out[HASH_TEXT] = '\0';
}

static void by_hash(const json_t *object, void (*emit)(void *to, const char *text), void *to)
{
	char hash[HASH_TEXT + 1];

	hash_of(kube_name(object), hash);
	emit(to, hash);
}

int sidecar_sessions_new(struct kube_client *client, const char *ns, struct sidecar_sessions **ret,
			 struct cairn_err *err)
{
	static const struct kube_index indexes[] = {{INDEX, by_hash}, {NULL, NULL}};
	struct kube_informer_options options = {
		.resource = &kube_snapshotsessiondata,
		.ns = ns ? ns : kube_client_namespace(client),
		.indexes = indexes,
	};
	cairn_cleanup(sidecar_sessions_freep) struct sidecar_sessions *sessions =
		cairn_calloc(1, sizeof(*sessions));
	const struct kube_fair_queue_options waiting = {
		.what = "callers that wait for a new session",
		.total = SIDECAR_SESSIONS_WAITING,
		.each = SIDECAR_SESSIONS_WAITING_EACH,
	};
	int rc;

	if (!sessions)
		return cairn_err_nomem(err, "sessions");
	rc = kube_fair_queue_new(&waiting, &sessions->waiting, err);
	if (!rc)
		rc = kube_informer_new(client, &options, &sessions->informer, err);
	if (!rc)
		rc = kube_informer_start(sessions->informer, err);
	if (rc)
		return rc;
	*ret = cairn_take(sessions);
	return 0;
}

void sidecar_sessions_free(struct sidecar_sessions *sessions)
{
	if (!sessions)
		return;
	kube_informer_free(sessions->informer);
	kube_fair_queue_free(sessions->waiting);
	free(sessions);
}

static int sessions_look(struct sidecar_sessions *sessions, const char *hash, json_t **ret,
			 struct cairn_err *err)
{
	json_t **found = NULL;
	size_t n = 0;
	int rc = kube_informer_find(sessions->informer, INDEX, hash, &found, &n, err);

	if (rc)
		return rc;
	*ret = n > 0 ? json_incref(found[0]) : NULL;
	kube_objects_free(found, n);
	return 0;
}

/* False for a text that cannot be the name of an object. */
static bool may_be_session(const char *token)
{
	size_t n = strnlen(token, TOKEN_MAX + 1);

	return n > 0 && n <= TOKEN_MAX &&
	       strspn(token, "0123456789abcdefghijklmnopqrstuvwxyz-.") == n;
}

/* Waits briefly. If too many callers do so already, it is not known whether the session
 * exists: strangers with wrong tokens must not make a good one look bad. */
static int sessions_look_again(struct sidecar_sessions *sessions, const char *hash,
			       const struct kube_wait *wait, json_t **ret, struct cairn_err *err)
{
	uint64_t end = cairn_monotonic_ns() + SIDECAR_SESSIONS_WAIT_MS * CAIRN_NS_PER_MS;
	const struct kube_digest nowhere = kube_digest_of("nowhere", NULL);
	cairn_cleanup(kube_fair_queue_leave) struct kube_fair_pass place = {0};
	int rc = kube_fair_queue_enter(sessions->waiting, wait->origin ? wait->origin : &nowhere,
				       wait, &place, err);

	if (rc == CAIRN_NO_SPACE)
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "too many callers wait for a new session; try again");
	while (!rc && !*ret && cairn_monotonic_ns() < end) {
		cairn_sleep_ms(LOOK_MS);
		rc = kube_wait_check(wait, err);
		if (!rc)
			rc = sessions_look(sessions, hash, ret, err);
	}
	return rc;
}

int sidecar_sessions_find(struct sidecar_sessions *sessions, const char *token,
			  const struct kube_wait *wait, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *found = NULL;
	char hash[HASH_TEXT + 1];
	uint64_t end;
	int rc = 0;

	if (!kube_informer_synced(sessions->informer))
		return cairn_err_set(err, CAIRN_UNAVAILABLE, "sessions are not known yet");
	if (may_be_session(token)) {
		hash_of(token, hash);
		rc = sessions_look(sessions, hash, &found, err);
		if (!rc && !found)
			rc = sessions_look_again(sessions, hash, wait, &found, err);
	}
	if (rc)
		return rc;
	/* A missing session may still exist, so the token is not known to be bad. */
	if (!found && !kube_informer_current(sessions->informer)) {
		kube_informer_hurry(sessions->informer);
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "sessions cannot be watched at present; try again");
	}
	if (!found || !kube_time_parse(kube_str(found, "spec", "expiryTime"), &end) ||
	    end <= cairn_now_ns())
		return cairn_err_set(err, CAIRN_UNAUTHENTICATED,
				     "the session token is not valid or has expired");
	*ret = cairn_take(found);
	return 0;
}
