/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/lease_record.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"
#include "kube/timestamp.h"

/* Longer durations in a Lease are considered mistakes. */
#define DURATION_MAX_S 86400

void kube_lease_seen_done(struct kube_lease_seen *seen)
{
	free(seen->version);
	seen->version = NULL;
}

int kube_lease_look(struct kube_lease_seen *seen, const json_t *lease, uint64_t now_ns,
		    struct cairn_err *err)
{
	const char *version = kube_resource_version(lease);
	char *copy;

	if (seen->version && strcmp(seen->version, version) == 0)
		return 0;
	copy = cairn_strdup(version);
	if (!copy)
		return cairn_err_nomem(err, "lease");
	free(seen->version);
	seen->version = copy;
	seen->at_ns = now_ns;
	return 0;
}

const char *kube_lease_holder(const json_t *lease)
{
	const char *holder = kube_str(lease, "spec", "holderIdentity");

	return holder ? holder : "";
}

bool kube_lease_is_free(const struct kube_lease_seen *seen, const json_t *lease,
			const char *identity, uint64_t default_ms, uint64_t now_ns)
{
	const char *holder = kube_lease_holder(lease);
	uint64_t duration_ms = default_ms;
	int64_t seconds;

	if (!holder[0] || strcmp(holder, identity) == 0)
		return true;
	if (kube_i64(lease, &seconds, "spec", "leaseDurationSeconds") && seconds > 0)
		duration_ms =
			(uint64_t)(seconds < DURATION_MAX_S ? seconds : DURATION_MAX_S) * 1000;
	return now_ns >= seen->at_ns && now_ns - seen->at_ns >= duration_ms * CAIRN_NS_PER_MS;
}

/* A new holder. */
static int lease_record_begin(json_t *lease, const char *time, struct cairn_err *err)
{
	int64_t transitions = 0;
	bool known = kube_i64(lease, &transitions, "spec", "leaseTransitions");
	int rc = kube_set(lease, err, json_string(time), "spec", "acquireTime");

	if (rc)
		return rc;
	return kube_set(lease, err, json_integer(known ? transitions + 1 : 0), "spec",
			"leaseTransitions");
}

int kube_lease_hold(json_t *lease, const char *identity, uint64_t duration_ms, uint64_t wall_ns,
		    struct cairn_err *err)
{
	uint64_t seconds = (duration_ms + 999) / 1000;
	char time[KUBE_TIME_MAX];
	int rc = 0;

	kube_time_micro(wall_ns, time);
	if (identity[0] && strcmp(kube_lease_holder(lease), identity) != 0)
		rc = lease_record_begin(lease, time, err);
	if (!rc)
		rc = kube_set(lease, err, json_string(identity), "spec", "holderIdentity");
	if (!rc)
		rc = kube_set(lease, err, json_string(time), "spec", "renewTime");
	if (!rc)
		rc = kube_set(lease, err, json_integer(identity[0] ? (json_int_t)seconds : 1),
			      "spec", "leaseDurationSeconds");
	return rc;
}
