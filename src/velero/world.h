/* SPDX-License-Identifier: Apache-2.0 */

/* What all calls of a plugin process share: how the Velero server runs, and the client of
 * the API server, which is made by the first call that needs one. Most processes are
 * started for a single call, and many of them ask Kubernetes nothing. */
#ifndef CAIRN_VELERO_WORLD_H
#define CAIRN_VELERO_WORLD_H

#include <pthread.h>
#include <stdbool.h>

struct cairn_err;
struct kube_client;

struct velero_world {
	bool csi_enabled;       /* Velero's own CSI actions run before ours */
	const char *kubeconfig; /* NULL: searched for; borrowed */
	const char *ns;         /* Velero's; borrowed */

	pthread_mutex_t lock; /* guards what follows */
	struct kube_client *client;
	bool progress_logged; /* it was logged that there are no progress objects */
	bool upload;          /* the volume snapshotter also copies to the repository */
};

void velero_world_init(struct velero_world *world, const char *kubeconfig, bool csi_enabled);

#define VELERO_NAMESPACE_DEFAULT "velero"

/* No call may be running. */
void velero_world_done(struct velero_world *world);

/* From any thread; *ret is borrowed. Codes of kube_config_load() and kube_client_new(). */
int velero_world_client(struct velero_world *world, struct kube_client **ret,
			struct cairn_err *err);

void velero_world_set_upload(struct velero_world *world, bool upload);
bool velero_world_uploads(struct velero_world *world);

#endif
