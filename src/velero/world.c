/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/world.h"

#include <stddef.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"

void velero_world_init(struct velero_world *world, const char *kubeconfig, bool csi_enabled)
{
	*world = (struct velero_world){.csi_enabled = csi_enabled,
				       .kubeconfig = kubeconfig,
				       .ns = VELERO_NAMESPACE_DEFAULT};
	pthread_mutex_init(&world->lock, NULL);
}

void velero_world_done(struct velero_world *world)
{
	kube_client_free(world->client);
	pthread_mutex_destroy(&world->lock);
}

static int world_connect(struct velero_world *world, struct cairn_err *err)
{
	const struct kube_config_options where = {.kubeconfig = world->kubeconfig};
	const struct kube_client_options how = {.user_agent = "cairn-velero-plugin"};
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	int rc = kube_config_load(&where, &config, err);

	return rc ? rc : kube_client_new(config, &how, &world->client, err);
}

int velero_world_client(struct velero_world *world, struct kube_client **ret, struct cairn_err *err)
{
	int rc = 0;

	cairn_scoped_lock(&world->lock);
	if (!world->client)
		rc = world_connect(world, err);
	if (!rc)
		*ret = world->client;
	return rc;
}

void velero_world_set_upload(struct velero_world *world, bool upload)
{
	cairn_scoped_lock(&world->lock);
	world->upload = upload;
}

bool velero_world_uploads(struct velero_world *world)
{
	cairn_scoped_lock(&world->lock);
	return world->upload;
}
