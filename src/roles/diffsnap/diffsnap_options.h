/* SPDX-License-Identifier: Apache-2.0 */

/* Options of `cairn diffsnap`; its flags fill them. */
#ifndef CAIRN_ROLES_DIFFSNAP_OPTIONS_H
#define CAIRN_ROLES_DIFFSNAP_OPTIONS_H

#include <stdint.h>

struct diffsnap_options {
	const char *csi_address;
	const char *listen;
	const char *advertise; /* host:port that readers use */
	const char *tls_cert;
	const char *tls_key;
	const char *kubeconfig; /* NULL: searched for */
	const char *audience;   /* NULL: the API server's */
	const char *http_address;
	uint64_t timeout_ms; /* of a call to the driver */
	uint64_t drain_ms;
	uint64_t unclaimed_ms; /* UINT64_MAX: never */
};

extern struct diffsnap_options diffsnap_options;

#endif
