/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/csi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "csi_client/capabilities.h"
#include "csi_client/driver_identity.h"
#include "csi_client/json_map.h"
#include "csi_deltas.pb-c.h"
#include "kube/object.h"
#include "kube/timestamp.h"
#include "net/grpc/grpc_client.h"
#include "net/grpc/unary.h"
#include "older/aggapi/aggapi_wire.h"
#include "older/data/data_block.h"
#include "proto/message.h"

#define MESSAGE_MAX    (32U << 20)
#define BACKOFF_MAX_MS 5000U

struct aggapi_csi {
	struct net_channel *channel;
	uint64_t timeout_ms;
};

int aggapi_csi_new(const char *socket, uint64_t timeout_ms, struct aggapi_csi **ret,
		   struct cairn_err *err)
{
	struct net_channel_options options = {
		.target = socket, .message_max = MESSAGE_MAX, .backoff_max_ms = BACKOFF_MAX_MS};
	cairn_cleanup(aggapi_csi_freep) struct aggapi_csi *csi = cairn_calloc(1, sizeof(*csi));
	int rc;

	if (!csi)
		return cairn_err_nomem(err, "driver");
	csi->timeout_ms = timeout_ms;
	rc = net_channel_new(&options, &csi->channel, err);
	if (!rc)
		*ret = cairn_take(csi);
	return rc;
}

void aggapi_csi_free(struct aggapi_csi *csi)
{
	net_channel_free(csi->channel);
	free(csi);
}

int aggapi_csi_identify(struct aggapi_csi *csi, char out[AGGAPI_DRIVER_NAME_MAX],
			bool *ret_supports, struct cairn_err *err)
{
	const struct csi_client client = {.channel = csi->channel, .timeout_ms = csi->timeout_ms};
	struct csi_client_controller controller = {0};
	cairn_auto_free char *name = NULL;
	int rc = csi_client_name(&client, &name, NULL, err);

	if (!rc && strlen(name) >= AGGAPI_DRIVER_NAME_MAX)
		rc = cairn_err_set(err, CAIRN_INTERNAL, "the driver's name is too long");
	if (!rc)
		rc = csi_client_controller(&client, &controller, err);
	if (rc)
		return rc;
	snprintf(out, AGGAPI_DRIVER_NAME_MAX, "%s", name);
	*ret_supports = controller.list_deltas;
	return 0;
}

static json_t *token_object(const Csi__V1__BlockSnapshotChangedBlockToken *token,
			    const struct data_holder *holder)
{
	cairn_auto_free char *text = data_holder_token(holder, token->token);
	char time[KUBE_TIME_MAX];
	uint64_t seconds = token->issuance_time && token->issuance_time->seconds > 0
				   ? (uint64_t)token->issuance_time->seconds
				   : 0;

	if (seconds > UINT64_MAX / CAIRN_NS_PER_SEC)
		seconds = 0;
	if (!text)
		return NULL;
	return json_pack("{s:s, s:s, s:i}", "token", text, "issuanceTime",
			 kube_time(seconds * CAIRN_NS_PER_SEC, time), "ttlSeconds",
			 token->ttl_seconds);
}

static json_t *block_object(const Csi__V1__BlockSnapshotChangedBlock *block,
			    const struct data_holder *holder)
{
	kube_auto_json json_t *object =
		json_pack("{s:I, s:I}", "offset", (json_int_t)block->offset, "blockSizeBytes",
			  (json_int_t)block->block_size_bytes);

	if (!object ||
	    (block->token &&
	     json_object_set_new(object, "token", token_object(block->token, holder)) < 0))
		return NULL;
	return cairn_take(object);
}

static int answer_object(const Csi__V1__ListSnapshotDeltasResponse *said,
			 const struct data_holder *holder, json_t **ret, struct cairn_err *err)
{
	json_t *blocks = json_array();
	kube_auto_json json_t *object =
		json_pack("{s:I, s:s*, s:o}", "volumeSizeBytes",
			  (json_int_t)said->volume_size_bytes, "nextToken",
			  said->next_token[0] ? said->next_token : NULL, "changedBlocks", blocks);

	if (!object)
		return cairn_err_nomem(err, "answer");
	for (size_t i = 0; i < said->n_changed_blocks; i++) {
		if (said->changed_blocks[i]->offset > INT64_MAX ||
		    said->changed_blocks[i]->block_size_bytes > INT64_MAX)
			return cairn_err_set(err, CAIRN_INTERNAL, "a block beyond every volume");
		if (json_array_append_new(blocks, block_object(said->changed_blocks[i], holder)) <
		    0)
			return cairn_err_nomem(err, "answer");
	}
	*ret = cairn_take(object);
	return 0;
}

int aggapi_csi_deltas(struct aggapi_csi *csi, const struct aggapi_question *question, json_t **ret,
		      struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *answer = NULL;
	kube_auto_json json_t *object = NULL;
	cairn_cleanup(proto_text_map_done) struct proto_text_map secrets = {0};
	cairn_auto_free char *holder = data_holder_text(&question->holder);
	Csi__V1__ListSnapshotDeltasRequest request;
	int rc;

	if (!holder)
		return cairn_err_nomem(err, "question");
	rc = csi_client_json_map(question->secrets,
				 &csi__v1__list_snapshot_deltas_request__secrets_entry__descriptor,
				 &secrets, err);
	csi__v1__list_snapshot_deltas_request__init(&request);
	request.from_snapshot_id = proto_text(question->from);
	request.to_snapshot_id = proto_text(question->to);
	request.max_entries = (int32_t)question->max_entries;
	request.starting_token = proto_text(question->starting_token);
	request.holder = holder;
	request.n_secrets = secrets.n;
	request.secrets = secrets.entries;
	if (!rc)
		rc = net_unary(csi->channel, "/csi.v1.Controller/ListSnapshotDeltas",
			       csi->timeout_ms, &request.base,
			       &csi__v1__list_snapshot_deltas_response__descriptor, &answer, err);
	if (!rc)
		rc = answer_object((const void *)answer, &question->holder, &object, err);
	if (!rc)
		rc = aggapi_answer_check(object, question->max_entries, err);
	if (!rc)
		*ret = cairn_take(object);
	return rc;
}

int aggapi_csi_block(struct aggapi_csi *csi, const char *token, const char *holder,
		     data_piece_fn piece, void *arg, struct cairn_err *err)
{
	return data_block_get(csi->channel, csi->timeout_ms, token, holder, piece, arg, err);
}
