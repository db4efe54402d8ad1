/* SPDX-License-Identifier: Apache-2.0 */

/* Contents of a Lease, and whether it may be taken: no clock, no calls. */
#ifndef CAIRN_KUBE_LEASE_RECORD_H
#define CAIRN_KUBE_LEASE_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

/* A Lease as last read. */
struct kube_lease_seen {
	char *version;  /* its resource version */
	uint64_t at_ns; /* monotonic, when this version was first seen */
};

void kube_lease_seen_done(struct kube_lease_seen *seen);

/* Records the state of `lease` at `now_ns`. */
int kube_lease_look(struct kube_lease_seen *seen, const json_t *lease, uint64_t now_ns,
		    struct cairn_err *err);

/* "" if there is no holder. */
const char *kube_lease_holder(const json_t *lease);

/* True if `identity` holds it, there is no holder, or the holder has not renewed it for
 * its duration (`default_ms` if it has none). */
bool kube_lease_is_free(const struct kube_lease_seen *seen, const json_t *lease,
			const char *identity, uint64_t default_ms, uint64_t now_ns);

/* Makes `identity` the holder, or renews it; `wall_ns` since 1970. An empty identity
 * releases the lease. */
int kube_lease_hold(json_t *lease, const char *identity, uint64_t duration_ms, uint64_t wall_ns,
		    struct cairn_err *err);

#endif
