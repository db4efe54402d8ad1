/* SPDX-License-Identifier: Apache-2.0 */

/* csi.v1.SnapshotMetadata: the change index, streamed.
 *
 * Tuples go from the union of the change sets straight into the output buffer. The first
 * message is sent even when there is nothing to report, because it carries type and
 * capacity. An incomplete stream ends with an error, never with OK.
 */

#include "csi/metadata.h"

#include <string.h>

#include "base/err.h"
#include "csi/service.h"
#include "csi_metadata.pb-c.h"
#include "net/grpc/call.h"
#include "pool/store/store.h"
#include "proto/block_metadata.h"
#include "proto/message.h"

/* Tuples a message, unless the caller wants fewer: 22 KiB at most, far below
 * the 1 MiB that a message may have, and enough to make its overhead vanish. */
#define TUPLES_DEFAULT 1024U
#define TUPLES_MAX     32768U /* 720 KiB */
#define EXTENT_BATCH   1024U

struct stream {
	struct csi_driver *driver;
	struct net_call *call;
	struct pool *pool;
	struct pool_delta *delta;
	enum csi_metadata_flavour flavour;
	uint64_t capacity;
	uint32_t per_message;
	uint64_t fixed;     /* 0: variable */
	uint64_t fixed_end; /* where the last fixed block ends */
	uint64_t base_size; /* UINT64_MAX without a base */

	struct block_extent extents[EXTENT_BATCH];
	size_t next;
	size_t n;
	bool ended;
};

static bool metadata_is_cancelled(void *arg)
{
	return net_call_check(arg) != 0;
}

/* Omits holes past the size of the base. The index has everything there as changed, but a
 * copy of the base that is grown has zeros there, and a caller would read a grown volume
 * whole. Returns false if nothing is left of the extent. */
static bool metadata_clip(const struct stream *s, struct block_extent *extent)
{
	if (!extent->zero || block_extent_end(extent) <= s->base_size)
		return true;
	if (extent->offset >= s->base_size)
		return false;
	extent->length = s->base_size - extent->offset;
	return true;
}

static int metadata_fill(struct stream *s, struct cairn_err *err)
{
	int rc = pool_delta_next(s->delta, s->extents, EXTENT_BATCH, &s->n, err);

	s->next = 0;
	s->ended = rc == 0 && s->n == 0;
	return rc;
}

/* Returns the current extent, or NULL at the end. */
static int metadata_peek(struct stream *s, struct block_extent **ret, struct cairn_err *err)
{
	*ret = NULL;
	for (;;) {
		int rc = s->next == s->n && !s->ended ? metadata_fill(s, err) : 0;

		if (rc || s->ended)
			return rc;
		if (metadata_clip(s, &s->extents[s->next])) {
			*ret = &s->extents[s->next];
			return 0;
		}
		s->next++;
	}
}

/* Returns the next block of fixed length that touches the extent; it may begin before the
 * starting offset. */
static bool take_fixed(struct stream *s, struct block_extent *extent, struct block_extent *out)
{
	uint64_t start = extent->offset - extent->offset % s->fixed;

	if (start < s->fixed_end)
		start = s->fixed_end;
	if (start >= block_extent_end(extent)) {
		s->next++;
		return false;
	}
	*out = (struct block_extent){.offset = start, .length = s->fixed};
	s->fixed_end = start + s->fixed;
	return true;
}

static bool metadata_take(struct stream *s, struct block_extent *extent, struct block_extent *out)
{
	if (s->fixed)
		return take_fixed(s, extent, out);
	*out = *extent;
	s->next++;
	return true;
}

/* The session flavour counts its types from 0. */
static enum proto_block_type block_type(const struct stream *s)
{
	enum proto_block_type type = s->fixed ? PROTO_BLOCK_FIXED : PROTO_BLOCK_VARIABLE;

	return s->flavour == CSI_METADATA_SESSION ? type - 1 : type;
}

/* Sends one message; *ret_more says whether there is another. */
static int metadata_send_message(struct stream *s, bool *ret_more, struct cairn_err *err)
{
	enum proto_block_type type = block_type(s);
	struct proto_block_writer writer;
	struct block_extent *extent;
	struct block_extent tuple;
	uint32_t n = 0;
	uint8_t *at;
	int rc = net_call_reserve(s->call, PROTO_BLOCK_ROOM(s->per_message), &at, err);

	if (rc)
		return rc;
	proto_block_begin(&writer, at, PROTO_BLOCK_ROOM(s->per_message), type, s->capacity);
	while ((rc = metadata_peek(s, &extent, err)) == 0 && extent && n < s->per_message) {
		if (!metadata_take(s, extent, &tuple))
			continue;
		proto_block_add(&writer, tuple.offset, tuple.length);
		n++;
	}
	if (rc) {
		net_call_commit_none(s->call);
		return rc;
	}
	*ret_more = extent != NULL;
	net_call_commit(s->call, proto_block_len(&writer), *ret_more);
	return 0;
}

static int run_stream(struct stream *s, uint64_t capacity, struct pool_delta_spec *spec,
		      struct cairn_err *err)
{
	bool more = true;
	int rc;

	s->capacity = capacity;
	/* A short last block cannot be expressed in blocks of fixed length. */
	if (s->driver->fixed_length && capacity % s->driver->fixed_length == 0)
		s->fixed = s->driver->fixed_length;
	/* Round starting_offset down to a block boundary. */
	if (s->fixed && spec->starting_offset < capacity)
		spec->starting_offset -= spec->starting_offset % s->fixed;
	rc = pool_delta_open(s->pool, spec, &s->delta, err);
	if (rc)
		return rc;
	while (!rc && more)
		rc = metadata_send_message(s, &more, err);
	pool_delta_free(s->delta);
	/* A cancelled call must not end with OK. */
	return rc ? rc : net_call_check(s->call);
}

static int metadata_check_volume(const struct csi_metadata_query *query,
				 const struct pool_snapshot *found, struct cairn_err *err)
{
	if (query->volume && strcmp(query->volume, found->volume_id) != 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND, "'%s' is not a snapshot of volume '%s'",
				     found->id, query->volume);
	return 0;
}

static int metadata_find_base(struct stream *s, const struct csi_metadata_query *query,
			      struct cairn_err *err)
{
	struct pool_snapshot base;
	struct pool *pool;
	int rc = csi_find_base(s->driver, query->base, &pool, &base, err);

	if (!rc)
		rc = metadata_check_volume(query, &base, err);
	if (!rc && pool != s->pool)
		rc = cairn_err_set(err, CAIRN_INVALID,
				   "the two snapshots are of unrelated volumes");
	if (!rc)
		s->base_size = base.size;
	return rc;
}

int csi_metadata_stream(struct net_call *call, struct csi_driver *driver,
			const struct csi_metadata_query *query, struct cairn_err *err)
{
	struct stream s = {
		.driver = driver, .call = call, .flavour = query->flavour, .base_size = UINT64_MAX};
	struct store_progress progress = {.cancelled = metadata_is_cancelled, .arg = call};
	struct pool_delta_spec spec = {
		.base = query->base,
		.target = query->target,
		.starting_offset = query->starting_offset,
		.progress = &progress,
	};
	struct pool_snapshot target;
	int rc = csi_find_snapshot(driver, query->target, &s.pool, &target, err);

	if (!rc)
		rc = metadata_check_volume(query, &target, err);
	if (!rc && query->base)
		rc = metadata_find_base(&s, query, err);
	if (rc)
		return rc;
	s.per_message = query->max_results ? query->max_results : TUPLES_DEFAULT;
	if (s.per_message > TUPLES_MAX)
		s.per_message = TUPLES_MAX;
	return run_stream(&s, target.size, &spec, err);
}

static int metadata_check_arguments(int64_t starting_offset, int32_t max_results,
				    struct cairn_err *err)
{
	if (starting_offset < 0)
		return cairn_err_set(err, CAIRN_INVALID, "starting_offset must not be negative");
	if (max_results < 0)
		return cairn_err_set(err, CAIRN_INVALID, "max_results must not be negative");
	return 0;
}

int csi_metadata_allocated(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__GetMetadataAllocatedRequest *request;
	int rc = csi_request_recv(call, &csi__v1__get_metadata_allocated_request__descriptor,
				  &message, err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = csi_require(request->snapshot_id, "snapshot_id", err);
	if (!rc)
		rc = metadata_check_arguments(request->starting_offset, request->max_results, err);
	if (rc)
		return rc;
	struct csi_metadata_query query = {
		.target = request->snapshot_id,
		.starting_offset = (uint64_t)request->starting_offset,
		.max_results = (uint32_t)request->max_results,
	};

	return csi_metadata_stream(call, arg, &query, err);
}

int csi_metadata_delta(struct net_call *call, void *arg, struct cairn_err *err)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	const Csi__V1__GetMetadataDeltaRequest *request;
	int rc = csi_request_recv(call, &csi__v1__get_metadata_delta_request__descriptor, &message,
				  err);

	if (rc)
		return rc;
	request = (const void *)message;
	rc = csi_require(request->base_snapshot_id, "base_snapshot_id", err);
	if (!rc)
		rc = csi_require(request->target_snapshot_id, "target_snapshot_id", err);
	if (!rc)
		rc = metadata_check_arguments(request->starting_offset, request->max_results, err);
	if (rc)
		return rc;
	struct csi_metadata_query query = {
		.base = request->base_snapshot_id,
		.target = request->target_snapshot_id,
		.starting_offset = (uint64_t)request->starting_offset,
		.max_results = (uint32_t)request->max_results,
	};

	return csi_metadata_stream(call, arg, &query, err);
}
