/* SPDX-License-Identifier: Apache-2.0 */

/* Options of `cairn sidecar`; its flags fill them. */
#ifndef CAIRN_ROLES_SIDECAR_OPTIONS_H
#define CAIRN_ROLES_SIDECAR_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct sidecar_role_options {
	const char *kubeconfig;
	const char *kube_qps; /* a number, perhaps with a fraction */
	uint64_t kube_burst;

	const char *host; /* NULL: all addresses */
	uint64_t port;
	const char *tls_cert;
	const char *tls_key;
	const char *tls_min_version;
	const char *tls_ciphers;
	const char *tls_curves;
	const char *audience;

	uint64_t cache_ms;
	uint64_t streams;
	uint64_t streams_each;
	uint64_t waiting;
	uint64_t wait_ms;
	uint64_t resume_ms; /* 0: streams end with the driver */
	uint64_t stream_ms; /* 0: no limit */
	bool stream_ms_given;
	uint64_t stream_min; /* in minutes, where stream_ms is not given */
	bool owned_base;
	bool sessions;
	bool reflection;
	const char *session_ns; /* NULL: that of the configuration */
	/* Publishes the session service under this name, with the two below; NULL: does not. */
	const char *session_configuration;
	const char *session_address;
	const char *session_ca; /* a file */

	/* Pass streams to the sidecars of other nodes. */
	bool route;
	const char *node_name;
	const char *route_ns; /* NULL: that of the configuration */
	const char *route_service;
	uint64_t route_port;
	const char *route_cert;
	const char *route_key;
	const char *route_ca;
	const char *route_signer; /* NULL: the files come from elsewhere */

	const char *csi_address;
	uint64_t csi_timeout_ms;
	uint64_t message_max;

	const char *http_endpoint; /* "": none */
	bool http_tls;
	const char *metrics_path;
	bool disable_metrics;
	uint64_t drain_ms;
	int64_t verbosity; /* as in klog */
};

extern struct sidecar_role_options sidecar_role_options;

#endif
