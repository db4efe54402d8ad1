/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/sidecar_request.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "csi_metadata.pb-c.h"
#include "proto/message.h"
#include "proto/text_map.h"
#include "proto/wire.h"
#include "sidecar/secret.h"
#include "snapshotmetadata.pb-c.h"

#define NAMESPACE_MAX 63U
#define NAME_MAX_LEN  253U

static bool sidecar_request_is_name(const char *text, size_t max, const char *also)
{
	size_t n = strlen(text);

	if (n > max)
		return false;
	for (size_t i = 0; i < n; i++) {
		bool end = i == 0 || i == n - 1;
		bool letter =
			(text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9');

		if (!letter && (end || !strchr(also, text[i])))
			return false;
	}
	return true;
}

static int sidecar_request_missing(const char *text, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_INVALID, "%s", text);
}

/* In the order and with the texts of the Go sidecar. */
static int check_presence(const struct sidecar_request *r, struct cairn_err *err)
{
	if (!r->token[0])
		return sidecar_request_missing("securityToken is missing", err);
	if (!r->ns[0])
		return sidecar_request_missing("namespace parameter cannot be empty", err);
	if (r->delta && !r->base[0])
		return sidecar_request_missing("baseSnapshotId cannot be empty", err);
	if (!r->snapshot[0])
		return sidecar_request_missing(r->delta ? "targetSnapshotName cannot be empty"
							: "snapshotName cannot be empty",
					       err);
	return 0;
}

static int sidecar_request_check(const struct sidecar_request *r, struct cairn_err *err)
{
	int rc = check_presence(r, err);

	if (rc)
		return rc;
	if (strlen(r->token) > SIDECAR_TOKEN_MAX)
		return sidecar_request_missing("securityToken is too long", err);
	if (!sidecar_request_is_name(r->ns, NAMESPACE_MAX, "-"))
		return sidecar_request_missing("namespace parameter is not a name of a namespace",
					       err);
	if (!sidecar_request_is_name(r->snapshot, NAME_MAX_LEN, "-."))
		return sidecar_request_missing(
			r->delta ? "targetSnapshotName is not a name of a VolumeSnapshot"
				 : "snapshotName is not a name of a VolumeSnapshot",
			err);
	if (strlen(r->base) > SIDECAR_HANDLE_MAX)
		return sidecar_request_missing("baseSnapshotId is too long", err);
	if (r->max_results < 0)
		return sidecar_request_missing("maxResults must not be negative", err);
	if (r->starting_offset < 0)
		return cairn_err_set(err, CAIRN_RANGE, "startingOffset must not be negative");
	return 0;
}

/* Moves the strings out of the message. */
static void sidecar_request_take_allocated(ProtobufCMessage *message, struct sidecar_request *r)
{
	Snapshotmetadata__GetMetadataAllocatedRequest *m = (void *)message;

	r->token = m->security_token;
	r->ns = m->namespace_;
	r->snapshot = m->snapshot_name;
	r->starting_offset = m->starting_offset;
	r->max_results = m->max_results;
}

static void sidecar_request_take_delta(ProtobufCMessage *message, struct sidecar_request *r)
{
	Snapshotmetadata__GetMetadataDeltaRequest *m = (void *)message;

	r->token = m->security_token;
	r->ns = m->namespace_;
	r->base = m->base_snapshot_id;
	r->snapshot = m->target_snapshot_name;
	r->starting_offset = m->starting_offset;
	r->max_results = m->max_results;
}

static char *sidecar_request_copy(const char *text)
{
	return cairn_strdup(text ? text : "");
}

int sidecar_request_read(bool delta, const uint8_t *data, size_t n, struct sidecar_request *ret,
			 struct cairn_err *err)
{
	const ProtobufCMessageDescriptor *type =
		delta ? &snapshotmetadata__get_metadata_delta_request__descriptor
		      : &snapshotmetadata__get_metadata_allocated_request__descriptor;
	cairn_cleanup(sidecar_request_done) struct sidecar_request own = {.delta = delta};
	proto_auto_message ProtobufCMessage *message = NULL;
	struct sidecar_request in = {0};
	int rc = proto_unpack(type, data, n, &message, err);

	if (rc)
		return rc;
	if (delta)
		sidecar_request_take_delta(message, &in);
	else
		sidecar_request_take_allocated(message, &in);
	own.token = sidecar_request_copy(in.token);
	own.ns = sidecar_request_copy(in.ns);
	own.base = sidecar_request_copy(in.base);
	own.snapshot = sidecar_request_copy(in.snapshot);
	own.starting_offset = in.starting_offset;
	own.max_results = in.max_results;
	if (in.token)
		explicit_bzero(in.token, strlen(in.token));
	if (!own.token || !own.ns || !own.base || !own.snapshot)
		return cairn_err_nomem(err, "request");
	rc = sidecar_request_check(&own, err);
	if (rc)
		return rc;
	*ret = own;
	own = (struct sidecar_request){0};
	return 0;
}

void sidecar_request_done(struct sidecar_request *r)
{
	if (r->token)
		explicit_bzero(r->token, strlen(r->token));
	free(r->token);
	free(r->ns);
	free(r->base);
	free(r->snapshot);
	*r = (struct sidecar_request){0};
}

/* --- the driver's request --- */

static int sidecar_request_secrets(const struct sidecar_secret *secret,
				   const ProtobufCMessageDescriptor *type,
				   struct proto_text_map *ret, struct cairn_err *err)
{
	size_t n = secret ? secret->n : 0;
	int rc = proto_text_map_init(ret, type, n, err);

	for (size_t i = 0; !rc && i < n; i++)
		proto_text_map_add(ret, secret->entries[i].key, secret->entries[i].value);
	return rc;
}

static void sidecar_request_pack_allocated(const struct sidecar_request *r, const char *handle,
					   const struct proto_text_map *secrets,
					   struct cairn_buf *out)
{
	Csi__V1__GetMetadataAllocatedRequest m;

	csi__v1__get_metadata_allocated_request__init(&m);
	m.snapshot_id = proto_text(handle);
	m.starting_offset = r->starting_offset;
	m.max_results = r->max_results;
	m.n_secrets = secrets->n;
	m.secrets = secrets->entries;
	proto_pack(&m.base, out);
}

static void sidecar_request_pack_delta(const struct sidecar_request *r, const char *handle,
				       const struct proto_text_map *secrets, struct cairn_buf *out)
{
	Csi__V1__GetMetadataDeltaRequest m;

	csi__v1__get_metadata_delta_request__init(&m);
	m.base_snapshot_id = r->base;
	m.target_snapshot_id = proto_text(handle);
	m.starting_offset = r->starting_offset;
	m.max_results = r->max_results;
	m.n_secrets = secrets->n;
	m.secrets = secrets->entries;
	proto_pack(&m.base, out);
}

int sidecar_request_pack(const struct sidecar_request *request, const char *handle,
			 const struct sidecar_secret *secret, struct cairn_buf *out,
			 struct cairn_err *err)
{
	const ProtobufCMessageDescriptor *entry =
		request->delta
			? &csi__v1__get_metadata_delta_request__secrets_entry__descriptor
			: &csi__v1__get_metadata_allocated_request__secrets_entry__descriptor;
	cairn_cleanup(proto_text_map_done) struct proto_text_map secrets = {0};
	int rc = sidecar_request_secrets(secret, entry, &secrets, err);

	if (rc)
		return rc;
	if (request->delta)
		sidecar_request_pack_delta(request, handle, &secrets, out);
	else
		sidecar_request_pack_allocated(request, handle, &secrets, out);
	return cairn_buf_failed(out) ? cairn_err_set(err, CAIRN_NO_SPACE,
						     "the request to the driver is too large")
				     : 0;
}

static void copy_handle(struct proto_in body, char out[SIDECAR_HANDLE_MAX + 1])
{
	size_t n = proto_in_left(&body);

	if (n > SIDECAR_HANDLE_MAX)
		n = SIDECAR_HANDLE_MAX;
	memcpy(out, body.pos, n);
	out[n] = '\0';
}

void sidecar_request_handles(bool delta, const uint8_t *data, size_t n,
			     struct sidecar_request_handles *ret)
{
	struct proto_in in = {.pos = data, .end = data + n}, body;
	uint32_t target = delta ? 2 : 1; /* the number of the field */
	enum proto_wire wire;
	uint32_t field;

	ret->base[0] = ret->target[0] = '\0';
	while (proto_in_left(&in) > 0 && proto_tag_get(&in, &field, &wire)) {
		if (field > target || wire != PROTO_WIRE_LEN) {
			if (!proto_skip(&in, field, wire))
				return;
			continue;
		}
		if (!proto_len_get(&in, &body))
			return;
		copy_handle(body, field == target ? ret->target : ret->base);
	}
}
