/* SPDX-License-Identifier: Apache-2.0 */

/* Options of `cairn cbt-http`; its flags fill them. */
#ifndef CAIRN_ROLES_CBT_HTTP_OPTIONS_H
#define CAIRN_ROLES_CBT_HTTP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "roles/server_flags.h"

struct cbt_http_options {
	const char *csi_address;
	const char *listen;
	const char *tls_cert;
	const char *tls_key;
	const char *client_ca;   /* authority of the aggregated server's certificate; or NULL */
	const char *client_name; /* its common name; NULL: any that the authority signed */
	const char *kubeconfig;
	const char *http_address;
	const char *publish_url;     /* one of these two, or neither: no DriverDiscovery */
	const char *publish_service; /* "namespace/name[:port][/path]" */
	const char *publish_ca;      /* PEM file with the authority of our certificate */
	bool elect;                  /* a Lease decides who serves */
	struct server_election_times election;
	const char *lease_ns; /* NULL: that of the configuration */
	uint64_t timeout_ms;  /* of a call to the driver */
	uint64_t drain_ms;
};

extern struct cbt_http_options cbt_http_options;

#endif
