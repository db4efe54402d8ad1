/* SPDX-License-Identifier: Apache-2.0 */

/* The objects that name the authorities of a service. Those that the services publish
 * themselves (DriverDiscovery, SnapshotServicesConfiguration) are not among them: the
 * services read the bundle from their Secret. */
#ifndef CAIRN_CERTIFICATES_TRUST_H
#define CAIRN_CERTIFICATES_TRUST_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;
struct kube_client;

/* The manager of fields, as in deploy/certificates: either may follow the other. */
#define CERTIFICATES_FIELD_MANAGER "cairn-certificates"

enum certificates_object {
	CERTIFICATES_NO_OBJECT,
	CERTIFICATES_METADATA_SERVICE, /* SnapshotMetadataService; created */
	CERTIFICATES_WEBHOOK,          /* ValidatingWebhookConfiguration; completed */
	CERTIFICATES_API_SERVICE,      /* APIService; completed */
};

struct certificates_trust {
	enum certificates_object object;
	const char *name;    /* of the object */
	const char *driver;  /* of a SnapshotMetadataService */
	const char *address; /* of a SnapshotMetadataService */
	const char *bundle;  /* PEM */
	const char *secret;  /* last part of the path of a webhook */
};

/* True if everything in `wanted` is in `found`; an element of an array is in any of the
 * other array. */
bool certificates_contained(const json_t *wanted, const json_t *found);

/* Makes the object name these authorities; *ret_changed says whether it did not. An object
 * that is completed and does not exist is not an error: its component is not installed. */
int certificates_trust(struct kube_client *client, const struct certificates_trust *trust,
		       bool *ret_changed, struct cairn_err *err);

#endif
