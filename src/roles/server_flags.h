/* SPDX-License-Identifier: Apache-2.0 */

/* Flags that mean the same for every role that serves a cluster: entries of a role's table,
 * each with the variable that it writes to. */
#ifndef CAIRN_ROLES_SERVER_FLAGS_H
#define CAIRN_ROLES_SERVER_FLAGS_H

#include <stdint.h>

#include "base/flags.h"

/* clang-format off */
#define SERVER_CSI_ADDRESS_DEFAULT "unix:///run/csi/socket"
#define SERVER_FLAG_CSI_ADDRESS(field) \
	CAIRN_FLAG_VALUE(STRING, "csi-address", field, "unix:///PATH", \
			 "socket of the CSI driver (default: " SERVER_CSI_ADDRESS_DEFAULT ")")

#define SERVER_CSI_TIMEOUT_DEFAULT_MS 60000
#define SERVER_FLAG_CSI_TIMEOUT(field) \
	CAIRN_FLAG_VALUE(DURATION, "timeout", field, "TIME", \
			 "of a call to the driver (default: 60s)")

#define SERVER_FLAGS_TLS(cert_field, key_field) \
	CAIRN_FLAG_VALUE(STRING, "tls-cert", cert_field, "FILE", \
			 "certificate of the server, PEM (required)"), \
	CAIRN_FLAG_VALUE(STRING, "tls-key", key_field, "FILE", \
			 "its key, PEM (required)")

#define SERVER_FLAG_KUBECONFIG(field) \
	CAIRN_FLAG_VALUE(STRING, "kubeconfig", field, "FILE", \
			 "how to reach the API server (default: as kubectl does)")

#define SERVER_FLAG_HTTP_ENDPOINT(field) \
	CAIRN_FLAG_VALUE(STRING, "http-endpoint", field, "HOST:PORT", \
			 "serve /metrics, /healthz and /readyz (default: no)")

/* `what` is waited for, such as "requests". */
#define SERVER_DRAIN_DEFAULT_MS 30000
#define SERVER_FLAG_DRAIN_TIME(field, what) \
	CAIRN_FLAG_VALUE(DURATION, "drain-time", field, "TIME", \
			 "time to wait for " what " at the end (default: 30s)")

#define SERVER_UNCLAIMED_DEFAULT_MS 30000
#define SERVER_FLAG_UNCLAIMED(field) \
	CAIRN_FLAG_VALUE(DURATION, "unclaimed-after", field, "TIME", \
			 "fail DifferentialSnapshots without a controller (30s)")
/* Leader election, spelled as in csi-lib-utils. `what` waits for the Lease. */
#define SERVER_FLAGS_ELECTION(on_field, times_, what) \
	CAIRN_FLAG_SWITCH("leader-election", on_field, what), \
	CAIRN_FLAG_VALUE(DURATION, "leader-election-lease-duration", (times_).duration_ms, \
			 "TIME", "before another takes the Lease over (default: 15s)"), \
	CAIRN_FLAG_VALUE(DURATION, "leader-election-renew-deadline", (times_).renew_ms, "TIME", \
			 "to renew it in, or stop leading (default: 10s)"), \
	CAIRN_FLAG_VALUE(DURATION, "leader-election-retry-period", (times_).retry_ms, "TIME", \
			 "between attempts (default: 2s)")
/* clang-format on */

/* For struct kube_leader_options; duration > renew > retry. */
struct server_election_times {
	uint64_t duration_ms, renew_ms, retry_ms;
};

#endif
