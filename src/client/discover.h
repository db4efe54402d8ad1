/* SPDX-License-Identifier: Apache-2.0 */

/* What a listing must learn from Kubernetes: which driver and handle a
 * VolumeSnapshot has, where that driver's SnapshotMetadata service is, and who we
 * are. Each is one or two requests; nothing is kept here.
 *
 * A VolumeSnapshotContent that does not point back to its VolumeSnapshot is
 * refused: anybody who may write a VolumeSnapshot's status could otherwise have
 * us read another's handle.
 */
#ifndef CAIRN_CLIENT_DISCOVER_H
#define CAIRN_CLIENT_DISCOVER_H

struct cairn_err;
struct kube_call;
struct kube_client;

struct client_snapshot {
	char *handle; /* in the CSI driver */
	char *driver;
};

void client_snapshot_done(struct client_snapshot *snapshot);

/* CAIRN_NOT_FOUND    there is no such VolumeSnapshot
 * CAIRN_UNAVAILABLE  it is not ready, or Kubernetes does not answer
 * CAIRN_INTERNAL     its content belongs to another VolumeSnapshot
 * and whatever Kubernetes says
 */
int client_discover_snapshot(struct kube_client *kube, const struct kube_call *how,
			     const char *namespace_name, const char *name,
			     struct client_snapshot *ret, struct cairn_err *err);

struct client_service {
	char *address;
	char *audience;
	char *ca_pem;
};

void client_service_done(struct client_service *service);

/* CAIRN_NOT_FOUND  the driver has no SnapshotMetadataService
 * CAIRN_INTERNAL   the object is not as its definition wants it
 */
int client_discover_service(struct kube_client *kube, const struct kube_call *how,
			    const char *driver, struct client_service *ret, struct cairn_err *err);

struct client_account {
	char *namespace_name;
	char *name;
};

void client_account_done(struct client_account *account);

/* The service account that we are.
 *
 * CAIRN_INVALID  we are a user of another kind
 */
int client_discover_account(struct kube_client *kube, const struct kube_call *how,
			    struct client_account *ret, struct cairn_err *err);

#endif
