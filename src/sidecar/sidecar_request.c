/* SPDX-License-Identifier: Apache-2.0 */

#include "sidecar/sidecar_request.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "csi_metadata.pb-c.h"
#include "proto/message.h"
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

typedef Csi__V1__GetMetadataAllocatedRequest__SecretsEntry allocated_entry;
typedef Csi__V1__GetMetadataDeltaRequest__SecretsEntry delta_entry;

static int sidecar_request_pack_allocated(const struct sidecar_request *r, const char *handle,
					  const struct sidecar_secret *secret,
					  struct cairn_buf *out, struct cairn_err *err)
{
	size_t n = secret ? secret->n : 0;
	cairn_auto_free allocated_entry *entries = cairn_calloc(n + 1, sizeof(*entries));
	cairn_auto_free allocated_entry **list = cairn_calloc(n + 1, sizeof(*list));
	Csi__V1__GetMetadataAllocatedRequest m;

	if (!entries || !list)
		return cairn_err_nomem(err, "request");
	csi__v1__get_metadata_allocated_request__init(&m);
	m.snapshot_id = proto_text(handle);
	m.starting_offset = r->starting_offset;
	m.max_results = r->max_results;
	for (size_t i = 0; i < n; i++) {
		csi__v1__get_metadata_allocated_request__secrets_entry__init(&entries[i]);
		entries[i].key = secret->entries[i].key;
		entries[i].value = secret->entries[i].value;
		list[i] = &entries[i];
	}
	m.n_secrets = n;
	m.secrets = list;
	proto_pack(&m.base, out);
	return 0;
}

static int pack_delta(const struct sidecar_request *r, const char *handle,
		      const struct sidecar_secret *secret, struct cairn_buf *out,
		      struct cairn_err *err)
{
	size_t n = secret ? secret->n : 0;
	cairn_auto_free delta_entry *entries = cairn_calloc(n + 1, sizeof(*entries));
	cairn_auto_free delta_entry **list = cairn_calloc(n + 1, sizeof(*list));
	Csi__V1__GetMetadataDeltaRequest m;

	if (!entries || !list)
		return cairn_err_nomem(err, "request");
	csi__v1__get_metadata_delta_request__init(&m);
	m.base_snapshot_id = r->base;
	m.target_snapshot_id = proto_text(handle);
	m.starting_offset = r->starting_offset;
	m.max_results = r->max_results;
	for (size_t i = 0; i < n; i++) {
		csi__v1__get_metadata_delta_request__secrets_entry__init(&entries[i]);
		entries[i].key = secret->entries[i].key;
		entries[i].value = secret->entries[i].value;
		list[i] = &entries[i];
	}
	m.n_secrets = n;
	m.secrets = list;
	proto_pack(&m.base, out);
	return 0;
}

int sidecar_request_pack(const struct sidecar_request *request, const char *handle,
			 const struct sidecar_secret *secret, struct cairn_buf *out,
			 struct cairn_err *err)
{
	int rc = request->delta ? pack_delta(request, handle, secret, out, err)
				: sidecar_request_pack_allocated(request, handle, secret, out, err);

	if (!rc && cairn_buf_failed(out))
		rc = cairn_err_set(err, CAIRN_NO_SPACE, "the request to the driver is too large");
	return rc;
}
