/* SPDX-License-Identifier: Apache-2.0 */

#include "older/diffsnap/diffsnap_driver.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/err_replace.h"
#include "base/lock.h"
#include "base/mem.h"
#include "csi_client/driver_identity.h"
#include "csi_client/json_map.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/unary.h"
#include "older/diffsnap/answer.h"
#include "older/diffsnap/diffsnap_resource.h"
#include "proto/message.h"

#define MESSAGE_MAX    (8U << 20)
#define BACKOFF_MAX_MS 5000U

struct diffsnap_driver {
	struct net_channel *channel;
	uint64_t timeout_ms;
	pthread_mutex_t lock; /* guards the name */
	char *name;
};

int diffsnap_driver_new(const char *socket, uint64_t timeout_ms, struct diffsnap_driver **ret,
			struct cairn_err *err)
{
	struct net_channel_options options = {
		.target = socket,
		.message_max = MESSAGE_MAX,
		.backoff_max_ms = BACKOFF_MAX_MS,
	};
	cairn_cleanup(diffsnap_driver_freep) struct diffsnap_driver *driver =
		cairn_calloc(1, sizeof(*driver));
	int rc;

	if (!driver)
		return cairn_err_nomem(err, "driver");
	pthread_mutex_init(&driver->lock, NULL);
	driver->timeout_ms = timeout_ms;
	rc = net_channel_new(&options, &driver->channel, err);
	if (rc)
		return rc;
	*ret = cairn_take(driver);
	return 0;
}

void diffsnap_driver_free(struct diffsnap_driver *driver)
{
	if (!driver)
		return;
	net_channel_free(driver->channel);
	pthread_mutex_destroy(&driver->lock);
	free(driver->name);
	free(driver);
}

static struct csi_client client_of(const struct diffsnap_driver *driver)
{
	return (struct csi_client){.channel = driver->channel, .timeout_ms = driver->timeout_ms};
}

int diffsnap_driver_name(struct diffsnap_driver *driver, const char **ret, struct cairn_err *err)
{
	cairn_scoped_lock(&driver->lock);
	const struct csi_client client = client_of(driver);
	int rc = driver->name ? 0 : csi_client_name(&client, &driver->name, NULL, err);

	if (!rc)
		*ret = driver->name;
	return rc;
}

int diffsnap_driver_supports(struct diffsnap_driver *driver, bool *ret, struct cairn_err *err)
{
	const struct csi_client client = client_of(driver);
	struct csi_client_services services;
	int rc = csi_client_services(&client, &services, err);

	if (!rc)
		*ret = services.differential_snapshot;
	return rc;
}

int diffsnap_driver_block(struct diffsnap_driver *driver, const char *token, const char *holder,
			  data_piece_fn piece, void *arg, struct cairn_err *err)
{
	return data_block_get(driver->channel, driver->timeout_ms, token, holder, piece, arg, err);
}

int diffsnap_driver_page(struct diffsnap_driver *driver,
			 const struct diffsnap_resource_spec *resource, const char *start,
			 uint64_t max, const char *holder,
			 Csi__V1__DifferentialSnapshotResponse **ret, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *answer = NULL;
	cairn_cleanup(proto_text_map_done) struct proto_text_map parameters = {0};
	Csi__V1__DifferentialSnapshotRequest request;
	int rc = csi_client_json_map(
		resource->parameters,
		&csi__v1__differential_snapshot_request__parameters_entry__descriptor, &parameters,
		err);

	csi__v1__differential_snapshot_request__init(&request);
	request.snapshot_base = proto_text(resource->base);
	request.snapshot_target = proto_text(resource->target);
	request.mode = proto_text(resource->mode);
	request.volume_id = proto_text(resource->volume_id);
	request.start_offset = proto_text(start);
	request.max_entries = max;
	request.holder = proto_text(holder);
	request.n_parameters = parameters.n;
	request.parameters = parameters.entries;
	if (!rc)
		rc = net_unary(driver->channel,
			       "/csi.v1.DifferentialSnapshot/GetDifferentialSnapshot",
			       driver->timeout_ms, &request.base,
			       &csi__v1__differential_snapshot_response__descriptor, &answer, err);
	if (!rc)
		rc = diffsnap_answer_check((const void *)answer, start, err);
	if (rc) { /* clients do not know the driver's handles */
		cairn_err_replace(err, resource->target, resource->target_name);
		cairn_err_replace(err, resource->base, resource->base_name);
		return rc;
	}
	*ret = (void *)cairn_take(answer);
	return 0;
}
