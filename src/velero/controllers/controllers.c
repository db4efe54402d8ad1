/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/controller.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "kube/informer.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/controllers/controllers.h"
#include "velero/location.h"
#include "velero/velero_names.h"

/* A request that fails for longer is tried again with the controller's own pauses. */
#define STORE_RETRY_MS 20000U

static const struct velero_controller *const table[] = {
	&velero_records_controller,
	&velero_mover_controller,
	&velero_sweep_controller,
};
#define N_TABLE (sizeof(table) / sizeof(table[0]))

struct velero_controllers {
	struct velero_common common;
	void *each[N_TABLE]; /* NULL: not started */
};

int velero_common_store(const struct velero_common *common, const char *location,
			const struct kube_call *how, struct repo_store **ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL;
	int rc = kube_get(common->client, KUBE_REF(&velero_locations, common->ns, location), how,
			  &object, err);

	if (rc)
		return cairn_err_wrap(err, "BackupStorageLocation %s", location);
	return velero_location_open(common->client, object, common->directories, STORE_RETRY_MS,
				    how, ret, err);
}

int velero_controllers_new(const struct velero_common *common, struct velero_controllers **ret,
			   struct cairn_err *err)
{
	const struct kube_informer_options watch = {
		.resource = &velero_backups, .ns = common->ns, .resync_ms = common->period_ms};
	cairn_cleanup(velero_controllers_freep) struct velero_controllers *c =
		cairn_calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return cairn_err_nomem(err, "controllers");
	c->common = *common;
	rc = kube_informer_new(common->client, &watch, &c->common.backups, err);
	for (size_t i = 0; !rc && i < N_TABLE; i++) {
		rc = table[i]->start(&c->common, &c->each[i], err);
		if (rc)
			return cairn_err_wrap(err, "controller of %s", table[i]->name);
	}
	if (!rc)
		rc = kube_informer_start(c->common.backups, err);
	if (!rc)
		*ret = cairn_take(c);
	return rc;
}

void velero_controllers_lead(struct velero_controllers *c, bool leads)
{
	for (size_t i = 0; i < N_TABLE; i++)
		if (c->each[i])
			table[i]->lead(c->each[i], leads);
}

void velero_controllers_stop(struct velero_controllers *c)
{
	for (size_t i = 0; i < N_TABLE; i++)
		if (c->each[i])
			table[i]->stop(c->each[i]);
}

bool velero_controllers_are_ready(struct velero_controllers *c)
{
	for (size_t i = 0; i < N_TABLE; i++)
		if (table[i]->is_ready && !table[i]->is_ready(c->each[i]))
			return false;
	return kube_informer_synced(c->common.backups);
}

void velero_controllers_free(struct velero_controllers *c)
{
	if (!c)
		return;
	velero_controllers_stop(c);
	kube_informer_free(c->common.backups); /* its handlers use the controllers */
	for (size_t i = 0; i < N_TABLE; i++)
		if (c->each[i])
			table[i]->free(c->each[i]);
	free(c);
}
