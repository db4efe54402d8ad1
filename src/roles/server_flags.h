/* SPDX-License-Identifier: Apache-2.0 */

/* Flags that mean the same for every role that serves a cluster: entries of a role's table,
 * each with the variable that it writes to. */
#ifndef CAIRN_ROLES_SERVER_FLAGS_H
#define CAIRN_ROLES_SERVER_FLAGS_H

#include "base/flags.h"

/* clang-format off */
#define SERVER_CSI_ADDRESS_DEFAULT "unix:///run/csi/socket"
#define SERVER_FLAG_CSI_ADDRESS(field) \
	{.name = "csi-address", .kind = CAIRN_FLAG_STRING, .target = &(field), \
	 .value_name = "unix:///PATH", \
	 .help = "socket of the CSI driver (default: " SERVER_CSI_ADDRESS_DEFAULT ")"}

#define SERVER_CSI_TIMEOUT_DEFAULT_MS 60000
#define SERVER_FLAG_CSI_TIMEOUT(field) \
	{.name = "timeout", .kind = CAIRN_FLAG_DURATION, .target = &(field), \
	 .value_name = "TIME", .help = "of a call to the driver (default: 60s)"}

#define SERVER_FLAGS_TLS(cert_field, key_field) \
	{.name = "tls-cert", .kind = CAIRN_FLAG_STRING, .target = &(cert_field), \
	 .value_name = "FILE", .help = "certificate of the server, PEM (required)"}, \
	{.name = "tls-key", .kind = CAIRN_FLAG_STRING, .target = &(key_field), \
	 .value_name = "FILE", .help = "its key, PEM (required)"}

#define SERVER_FLAG_KUBECONFIG(field) \
	{.name = "kubeconfig", .kind = CAIRN_FLAG_STRING, .target = &(field), \
	 .value_name = "FILE", .help = "how to reach the API server (default: as kubectl does)"}

#define SERVER_FLAG_HTTP_ENDPOINT(field) \
	{.name = "http-endpoint", .kind = CAIRN_FLAG_STRING, .target = &(field), \
	 .value_name = "HOST:PORT", \
	 .help = "serve /metrics, /healthz and /readyz (default: no)"}

/* `what` is waited for, such as "requests". */
#define SERVER_DRAIN_DEFAULT_MS 30000
#define SERVER_FLAG_DRAIN_TIME(field, what) \
	{.name = "drain-time", .kind = CAIRN_FLAG_DURATION, .target = &(field), \
	 .value_name = "TIME", .help = "wait so long for " what " when told to stop (default: 30s)"}
/* clang-format on */

#endif
