/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/block_listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "conformance/csi_request.h"
#include "conformance/driver_target.h"
#include "net/grpc/grpc_client.h"
#include "proto/wire.h"

/* Room for one more element of `size` bytes. */
static bool block_listing_grow(void **array, size_t n, size_t *cap, size_t size)
{
	void *larger;

	if (n < *cap)
		return true;
	if (n >= LISTING_MAX)
		return false;
	larger = cairn_realloc_array(*array, *cap ? *cap * 2 : 64, size);
	if (!larger)
		return false;
	*array = larger;
	*cap = *cap ? *cap * 2 : 64;
	return true;
}

static bool read_tuple(struct proto_in body, struct listing_tuple *ret)
{
	while (body.pos < body.end) {
		enum proto_wire wire;
		uint32_t field;
		uint64_t value;

		if (!proto_tag_get(&body, &field, &wire))
			return false;
		if (wire != PROTO_WIRE_VARINT || field > 2) {
			if (!proto_skip(&body, field, wire))
				return false;
			continue;
		}
		if (!proto_varint_get(&body, &value))
			return false;
		*(field == 1 ? &ret->offset : &ret->size) = (int64_t)value;
	}
	return true;
}

static bool add_tuple(struct listing *l, struct proto_in body)
{
	struct listing_tuple tuple = {.message = l->n_messages};
	void *array = l->tuples;
	bool ok = read_tuple(body, &tuple) &&
		  block_listing_grow(&array, l->n_tuples, &l->cap_tuples, sizeof(tuple));

	l->tuples = array;
	if (ok)
		l->tuples[l->n_tuples++] = tuple;
	return ok;
}

static bool read_field(struct listing *l, struct proto_in *in, struct listing_message *message)
{
	enum proto_wire wire;
	struct proto_in body;
	uint32_t field;
	uint64_t value;

	if (!proto_tag_get(in, &field, &wire))
		return false;
	if (field == 3 && wire == PROTO_WIRE_LEN) {
		message->tuples++;
		return proto_len_get(in, &body) && add_tuple(l, body);
	}
	if (wire != PROTO_WIRE_VARINT || field > 2)
		return proto_skip(in, field, wire);
	if (!proto_varint_get(in, &value))
		return false;
	if (field == 1)
		message->type = value;
	else
		message->capacity = (int64_t)value;
	return true;
}

static bool add_message(struct listing *l, const uint8_t *data, size_t n)
{
	struct proto_in in = {.pos = data, .end = data + n};
	struct listing_message message = {.bytes = n};
	void *array = l->messages;
	bool ok = block_listing_grow(&array, l->n_messages, &l->cap_messages, sizeof(message));

	l->messages = array;
	while (ok && in.pos < in.end)
		ok = read_field(l, &in, &message);
	if (ok)
		l->messages[l->n_messages++] = message;
	return ok;
}

/* --- the stream --- */

static void block_listing_write_request(const struct target *t, const struct listing_request *r,
					struct cairn_buf *buf)
{
	uint32_t field = 1;

	if (r->base)
		conformance_request_add_string(buf, field++, r->base);
	conformance_request_add_string(buf, field++, r->target);
	conformance_request_add_int(buf, field++, r->starting_offset);
	conformance_request_add_int(buf, field++, r->max_results);
	conformance_request_add_map(buf, field, &t->secrets);
}

/* A google.rpc.Status with its field 3, details. */
static bool status_has_details(const char *bytes, size_t n)
{
	const uint8_t *begin = (const uint8_t *)bytes;
	struct proto_in in = {.pos = begin, .end = begin ? begin + n : NULL};
	enum proto_wire wire;
	uint32_t field;

	while (in.pos < in.end) {
		if (!proto_tag_get(&in, &field, &wire) || !proto_skip(&in, field, wire))
			return true;
		if (field == 3)
			return true;
	}
	return false;
}

static void note_end(struct listing *l, const struct net_rpc *rpc)
{
	const char *value;
	size_t n = 0;

	value = net_rpc_trailer(rpc, "grpc-message", &n);
	l->has_text = value && n > 0;
	n = 0;
	value = net_rpc_trailer(rpc, "grpc-status-details-bin", &n);
	l->has_details = status_has_details(value, n);
}

static void block_listing_receive(const struct listing_request *r, struct net_rpc *rpc,
				  struct listing *l)
{
	const uint8_t *data;
	size_t n;
	int rc;

	while ((rc = net_rpc_recv(rpc, &data, &n, &l->err)) == 1) {
		if (!add_message(l, data, n)) {
			l->local = true;
			rc = cairn_err_set(
				&l->err, CAIRN_INTERNAL,
				"message %zu is malformed, or there are too many messages",
				l->n_messages);
			break;
		}
		if (l->n_messages == r->cancel_after)
			net_rpc_cancel(rpc);
		if (r->pause_ms && l->n_messages == 1)
			cairn_sleep_ms(r->pause_ms);
	}
	l->code = rc;
	note_end(l, rpc);
}

static void write_label(const struct listing_request *r, char *out, size_t n)
{
	int at = snprintf(out, n, "%s", r->base ? "Delta" : "Allocated");

	if (r->starting_offset && at > 0 && (size_t)at < n)
		at += snprintf(out + at, n - (size_t)at, " from %" PRId64, r->starting_offset);
	if (r->max_results && at > 0 && (size_t)at < n)
		snprintf(out + at, n - (size_t)at, " max_results %" PRId32, r->max_results);
}

/* --- the union --- */

static int by_start(const void *a, const void *b)
{
	const struct listing_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static bool make_cover(struct listing *l)
{
	size_t n = 0;

	l->cover = cairn_calloc(l->n_tuples + 1, sizeof(*l->cover));
	if (!l->cover)
		return false;
	for (size_t i = 0; i < l->n_tuples; i++) {
		const struct listing_tuple *t = &l->tuples[i];

		if (t->offset >= 0 && t->size > 0)
			l->cover[l->n_cover++] = (struct listing_range){
				(uint64_t)t->offset, (uint64_t)t->offset + (uint64_t)t->size};
	}
	qsort(l->cover, l->n_cover, sizeof(*l->cover), by_start);
	for (size_t i = 0; i < l->n_cover; i++) {
		if (n > 0 && l->cover[i].start <= l->cover[n - 1].end) {
			if (l->cover[i].end > l->cover[n - 1].end)
				l->cover[n - 1].end = l->cover[i].end;
		} else {
			l->cover[n++] = l->cover[i];
		}
	}
	l->n_cover = n;
	return true;
}

void conformance_listing_get(struct target *t, const struct listing_request *request,
			     struct listing *ret)
{
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(REQUEST_MAX);
	struct target_call call = {
		.path = request->base ? "/csi.v1.SnapshotMetadata/GetMetadataDelta"
				      : "/csi.v1.SnapshotMetadata/GetMetadataAllocated",
		.timeout_ms = request->timeout_ms,
		.grace_ms = request->grace_ms,
		.narrow = request->narrow,
	};
	struct net_rpc *rpc = NULL;

	*ret = (struct listing){.is_delta = request->base != NULL};
	write_label(request, ret->label, sizeof(ret->label));
	block_listing_write_request(t, request, &bytes);
	ret->code = conformance_target_open(t, &call, &bytes, &rpc, &ret->err);
	if (ret->code)
		ret->local = true;
	else
		block_listing_receive(request, rpc, ret);
	conformance_target_close(t, rpc);
	if (!make_cover(ret)) {
		ret->local = true;
		ret->code = cairn_err_nomem(&ret->err, "listing");
	}
}

void conformance_listing_free(struct listing *l)
{
	free(l->tuples);
	free(l->messages);
	free(l->cover);
	*l = (struct listing){0};
}

/* The first range that ends after `at`. */
static size_t block_listing_find(const struct listing *l, uint64_t at)
{
	size_t low = 0, high = l->n_cover;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (l->cover[middle].end > at)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint64_t conformance_listing_uncovered(const struct listing *l, uint64_t start, uint64_t end)
{
	for (size_t i = block_listing_find(l, start); i < l->n_cover && start < end; i++) {
		if (l->cover[i].start > start)
			return start;
		start = l->cover[i].end;
	}
	return start < end ? start : end;
}

bool conformance_listing_missing(const struct listing *a, const struct listing *b, uint64_t start,
				 uint64_t end, struct listing_range *ret)
{
	for (size_t i = block_listing_find(a, start); i < a->n_cover && a->cover[i].start < end;
	     i++) {
		uint64_t from = a->cover[i].start > start ? a->cover[i].start : start;
		uint64_t to = a->cover[i].end < end ? a->cover[i].end : end;
		uint64_t gap = conformance_listing_uncovered(b, from, to);

		if (gap < to) {
			*ret = (struct listing_range){gap, to};
			return true;
		}
	}
	return false;
}
