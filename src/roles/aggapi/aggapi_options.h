/* SPDX-License-Identifier: Apache-2.0 */

/* Options of `cairn aggapi`; its flags fill them. */
#ifndef CAIRN_ROLES_AGGAPI_OPTIONS_H
#define CAIRN_ROLES_AGGAPI_OPTIONS_H

#include <stdint.h>

struct aggapi_options {
	const char *listen;
	const char *tls_cert;
	const char *tls_key;
	const char *kubeconfig;   /* NULL: searched for */
	const char *http_address; /* NULL: no metrics */
	const char *client_cert;  /* shown to sidecars; NULL: none */
	const char *client_key;
	uint64_t page_limit;
	uint64_t user_rate; /* requests a second of one user; 0: no limit */
	uint64_t user_burst;
	uint64_t cache_ms;
	uint64_t watch_ms;   /* of a watch of CRDs */
	uint64_t timeout_ms; /* of a call to a sidecar */
	uint64_t drain_ms;
};

extern struct aggapi_options aggapi_options;

#endif
