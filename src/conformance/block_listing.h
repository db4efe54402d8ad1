/* SPDX-License-Identifier: Apache-2.0 */

/* The contents of one block metadata stream, as received.
 *
 * Nothing is rejected here: a listing holds what the driver sent, right or wrong, and how
 * the stream ended; the tests judge it. In addition to the tuples it has their union,
 * sorted and merged, which is what a backup would copy.
 */
#ifndef CAIRN_CONFORMANCE_LISTING_H
#define CAIRN_CONFORMANCE_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct target;

/* Limit of the tuples and messages of one stream, against a driver that never ends. */
#define LISTING_MAX (4U << 20)

#define LISTING_TYPE_FIXED    1
#define LISTING_TYPE_VARIABLE 2

struct listing_request {
	const char *base; /* NULL: GetMetadataAllocated */
	const char *target;
	int64_t starting_offset;
	int32_t max_results;
	uint64_t timeout_ms; /* 0: the target's */
	uint64_t grace_ms;   /* see net/grpc/grpc_client.h */
	uint64_t pause_ms;   /* with `narrow`: pause this long after a message */
	bool narrow;
	size_t cancel_after; /* messages; 0: do not cancel */
};

struct listing_tuple {
	int64_t offset;
	int64_t size;
	size_t message;
};

struct listing_message {
	uint64_t type;
	int64_t capacity;
	size_t tuples;
	size_t bytes;
};

struct listing_range {
	uint64_t start;
	uint64_t end;
};

struct listing {
	struct listing_tuple *tuples;
	size_t n_tuples, cap_tuples;
	struct listing_message *messages;
	size_t n_messages, cap_messages;
	struct listing_range *cover; /* ascending and disjoint */
	size_t n_cover;

	int code; /* how it ended: 0 or a negative gRPC code */
	struct cairn_err err;
	bool is_delta;
	bool local;       /* the suite ended it: a limit, malformed bytes, no memory */
	bool has_text;    /* the status had a message */
	bool has_details; /* the status had details */
	char label[96];   /* the call, for diagnostics */
};

/* Makes the call and fills `ret`, which need not be initialised. */
void conformance_listing_get(struct target *t, const struct listing_request *request,
			     struct listing *ret);
void conformance_listing_free(struct listing *l);

/* Finds the first part of [start, end) that is in `a` and not in `b`; false if there is
 * none. */
bool conformance_listing_missing(const struct listing *a, const struct listing *b, uint64_t start,
				 uint64_t end, struct listing_range *ret);

/* Returns the first byte of [start, end) that the listing does not cover, or `end`. */
uint64_t conformance_listing_uncovered(const struct listing *l, uint64_t start, uint64_t end);

#endif
