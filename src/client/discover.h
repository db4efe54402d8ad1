/* SPDX-License-Identifier: Apache-2.0 */

/* Queries to Kubernetes that a listing needs besides the VolumeSnapshot (kube/kube_snapshot.h):
 * the address of the driver's SnapshotMetadata service, and our own service account. Each
 * is one request; nothing is cached here.
 */
#ifndef CAIRN_CLIENT_DISCOVER_H
#define CAIRN_CLIENT_DISCOVER_H

struct cairn_err;
struct kube_call;
struct kube_client;

struct client_service {
	char *address;
	char *audience;
	char *ca_pem;
};

void client_service_done(struct client_service *service);

/* CAIRN_NOT_FOUND  the driver has no SnapshotMetadataService
 * CAIRN_INTERNAL   the object does not match its definition
 */
int client_discover_service(struct kube_client *kube, const struct kube_call *how,
			    const char *driver, struct client_service *ret, struct cairn_err *err);

struct client_account {
	char *namespace_name;
	char *name;
};

void client_account_done(struct client_account *account);

/* Returns our own service account.
 *
 * CAIRN_INVALID  we are not a service account
 */
int client_discover_account(struct kube_client *kube, const struct kube_call *how,
			    struct client_account *ret, struct cairn_err *err);

#endif
