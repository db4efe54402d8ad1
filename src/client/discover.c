/* SPDX-License-Identifier: Apache-2.0 */

#include "client/discover.h"

#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/auth.h"
#include "kube/kube_client.h"
#include "kube/object.h"

/* Prefix reserved for the user names of service accounts. */
#define ACCOUNT_PREFIX "system:serviceaccount:"

void client_service_done(struct client_service *service)
{
	free(service->address);
	free(service->audience);
	free(service->ca_pem);
	*service = (struct client_service){0};
}

void client_account_done(struct client_account *account)
{
	free(account->namespace_name);
	free(account->name);
	*account = (struct client_account){0};
}

/* --- the service --- */

int client_discover_service(struct kube_client *kube, const struct kube_call *how,
			    const char *driver, struct client_service *ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	struct client_service service = {0};
	const char *address, *audience, *ca;
	int rc = kube_get(kube, KUBE_REF(&kube_snapshotmetadataservices, NULL, driver), how,
			  &object, err);

	if (rc)
		return cairn_err_wrap(err, "SnapshotMetadataService %s", driver);
	address = kube_str(object, "spec", "address");
	audience = kube_str(object, "spec", "audience");
	ca = kube_str(object, "spec", "caCert");
	if (!address || !*address || !audience || !ca)
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "SnapshotMetadataService %s lacks a field", driver);
	service.address = cairn_strdup(address);
	service.audience = cairn_strdup(audience);
	service.ca_pem = cairn_base64_text(ca, strlen(ca));
	if (!service.ca_pem || !service.ca_pem[0])
		rc = cairn_err_set(err, CAIRN_INTERNAL,
				   "caCert of SnapshotMetadataService %s is not a certificate",
				   driver);
	else if (!service.address || !service.audience)
		rc = cairn_err_nomem(err, "service");
	if (rc) {
		client_service_done(&service);
		return rc;
	}
	*ret = service;
	return 0;
}

/* --- our own account --- */

int client_discover_account(struct kube_client *kube, const struct kube_call *how,
			    struct client_account *ret, struct cairn_err *err)
{
	kube_auto_json json_t *user = NULL;
	struct client_account account = {0};
	const char *name, *ns, *colon = NULL;
	int rc = kube_whoami(kube, how, &user, err);

	if (rc)
		return cairn_err_wrap(err, "SelfSubjectReview");
	name = kube_str(user, "username");
	if (name && strncmp(name, ACCOUNT_PREFIX, strlen(ACCOUNT_PREFIX)) == 0)
		colon = strchr(name + strlen(ACCOUNT_PREFIX), ':');
	if (!colon)
		return cairn_err_set(
			err, CAIRN_INVALID,
			"'%s' is not a service account: name the one to get a token of",
			name ? name : "");
	ns = name + strlen(ACCOUNT_PREFIX);
	account.namespace_name = cairn_strndup(ns, (size_t)(colon - ns));
	account.name = cairn_strdup(colon + 1);
	if (!account.namespace_name || !account.name) {
		client_account_done(&account);
		return cairn_err_nomem(err, "service account");
	}
	*ret = account;
	return 0;
}
