/* SPDX-License-Identifier: Apache-2.0 */

/* Options of `cairn manager`; its flags fill them. */
#ifndef CAIRN_ROLES_MANAGER_OPTIONS_H
#define CAIRN_ROLES_MANAGER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "roles/server_flags.h"

struct manager_options {
	const char *kubeconfig; /* NULL: searched for */
	const char *ns;         /* of the Lease and the ConfigMap; NULL: the configuration's */
	const char *config_map;
	const char *listen; /* of the webhook; NULL: none */
	const char *tls_cert;
	const char *tls_key;
	const char *webhook_secret; /* file with the last part of the path; or NULL */
	const char *client_ca;      /* authority of the API server's certificate; or NULL */
	const char *client_name;    /* its common name; NULL: any that the authority signed */
	const char *http_address;   /* NULL: no metrics */
	uint64_t qps;               /* calls to the API server a second */
	bool elect;
	struct server_election_times election;
	const char *lease_ns; /* NULL: `ns` */
	bool sessions;        /* else DriverDiscovery only */
	bool velero;          /* instead of the above: the controllers beside a Velero server */
	const char *velero_ns;
	const char *velero_directories; /* NULL: no location in a directory */
	uint64_t velero_period_ms;
	const char
		*velero_image; /* of Jobs that move data; NULL: $CAIRN_IMAGE, or this version's */
	const char *velero_account;
	const char *velero_patch; /* file with a merge patch of these Jobs; or NULL */
	uint64_t velero_per_node;
	const char *certificates; /* instead of the above: keep those of these generations */
	bool route;               /* with certificates: sign those of sidecars that route */
	uint64_t certificate_life_ms;
	uint64_t certificate_overlap_ms;
	bool backups;        /* instead of the above: metrics of the backups of claims */
	const char *release; /* first part of the names of services and of the Lease */
	const char *driver;
	uint64_t drain_ms;
	uint64_t unclaimed_ms; /* of DifferentialSnapshots; UINT64_MAX: never */
};

extern struct manager_options manager_options;

#endif
