/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/live_drivers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "kube/kube_snapshot.h"
#include "kube/object.h"

/* Answers of several busy drivers find room; what is pushed out is looked for once more. */
#define ANSWERS_MAX 64U
#define NAME_BYTES  254U

struct answer {
	uint64_t at_ns; /* 0: unused */
	char ns[NAME_BYTES], target[NAME_BYTES];
	char driver[NAME_BYTES]; /* "" until it was looked up */
};

struct diffsnap_live_drivers {
	pthread_mutex_t lock;
	/* guarded by lock */
	struct answer answers[ANSWERS_MAX];
	size_t next;
};

int diffsnap_live_drivers_new(struct diffsnap_live_drivers **ret, struct cairn_err *err)
{
	struct diffsnap_live_drivers *live = cairn_calloc(1, sizeof(*live));

	if (!live)
		return cairn_err_nomem(err, "drivers");
	pthread_mutex_init(&live->lock, NULL);
	*ret = live;
	return 0;
}

void diffsnap_live_drivers_free(struct diffsnap_live_drivers *live)
{
	if (!live)
		return;
	pthread_mutex_destroy(&live->lock);
	free(live);
}

static bool is_answered(const json_t *object)
{
	const char *state = kube_str(object, "status", "state");
	const char *error = kube_str(object, "status", "error");

	return state && state[0] &&
	       (!error ||
		strncmp(error, DIFFSNAP_UNCLAIMED_ERROR, strlen(DIFFSNAP_UNCLAIMED_ERROR)) != 0);
}

void diffsnap_live_drivers_note(struct diffsnap_live_drivers *live, const json_t *old,
				const json_t *now)
{
	const char *target = kube_str(now, "spec", "targetVolumeSnapshotName");
	struct answer *answer;

	/* Without `old` it may have been answered long ago. */
	if (!old || !now || !target || is_answered(old) || !is_answered(now))
		return;
	cairn_scoped_lock(&live->lock);
	answer = &live->answers[live->next++ % ANSWERS_MAX];
	*answer = (struct answer){.at_ns = cairn_monotonic_ns()};
	snprintf(answer->ns, sizeof(answer->ns), "%s", kube_namespace(now));
	snprintf(answer->target, sizeof(answer->target), "%s", target);
}

/* Looks the driver up; the place may have been taken by another answer meanwhile. */
static int live_drivers_look_up(struct diffsnap_live_drivers *live, size_t i, struct answer *answer,
				struct kube_client *client, const struct kube_call *how,
				struct cairn_err *err)
{
	cairn_cleanup(kube_snapshot_done) struct kube_snapshot target = {0};
	int rc = kube_snapshot_get(client, answer->ns, answer->target, how, &target, err);

	if (rc == CAIRN_NOT_FOUND || rc == CAIRN_PRECONDITION || rc == CAIRN_INVALID)
		answer->at_ns = 0;
	else if (rc)
		return rc;
	else
		snprintf(answer->driver, sizeof(answer->driver), "%s", target.driver);
	cairn_scoped_lock(&live->lock);
	if (strcmp(live->answers[i].ns, answer->ns) == 0 &&
	    strcmp(live->answers[i].target, answer->target) == 0) {
		live->answers[i].at_ns = answer->at_ns;
		memcpy(live->answers[i].driver, answer->driver, sizeof(answer->driver));
	}
	return 0;
}

static struct answer live_drivers_at(struct diffsnap_live_drivers *live, size_t i)
{
	cairn_scoped_lock(&live->lock);
	return live->answers[i];
}

int diffsnap_live_drivers_find(struct diffsnap_live_drivers *live, struct kube_client *client,
			       const struct kube_call *how, const char *driver, uint64_t within_ms,
			       bool *ret, struct cairn_err *err)
{
	uint64_t now_ns = cairn_monotonic_ns();

	*ret = false;
	for (size_t i = 0; i < ANSWERS_MAX && !*ret; i++) {
		struct answer answer = live_drivers_at(live, i);
		int rc;

		if (answer.at_ns == 0 ||
		    (now_ns > answer.at_ns && now_ns - answer.at_ns > within_ms * CAIRN_NS_PER_MS))
			continue;
		rc = answer.driver[0] ? 0
				      : live_drivers_look_up(live, i, &answer, client, how, err);
		if (rc)
			return rc;
		*ret = answer.at_ns > 0 && strcmp(answer.driver, driver) == 0;
	}
	return 0;
}
