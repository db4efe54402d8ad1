/* SPDX-License-Identifier: Apache-2.0 */

/* The hand-made coder against protobuf-c, which decides what is right. */

#include "cairntest.h"

#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "block/extent.h"
#include "csi_metadata.pb-c.h"
#include "proto/block_metadata.h"
#include "rng.h"

#define TUPLES_MAX 64

struct tuple {
	uint64_t offset, length;
};

static uint64_t rng_state;

static uint64_t rng(void)
{
	return rng_next(&rng_state);
}

/* Numbers of every length, not only large ones. */
static uint64_t rng_number(unsigned bits_max)
{
	unsigned bits = (unsigned)(rng() % (bits_max + 1));

	return bits == 0 ? 0 : rng() >> (64 - bits);
}

static size_t pack_reference(const struct tuple *tuples, size_t n, int type, uint64_t capacity,
			     uint8_t *out)
{
	Csi__V1__GetMetadataDeltaResponse message = CSI__V1__GET_METADATA_DELTA_RESPONSE__INIT;
	Csi__V1__BlockMetadata items[TUPLES_MAX];
	Csi__V1__BlockMetadata *pointers[TUPLES_MAX];

	for (size_t i = 0; i < n; i++) {
		csi__v1__block_metadata__init(&items[i]);
		items[i].byte_offset = (int64_t)tuples[i].offset;
		items[i].size_bytes = (int64_t)tuples[i].length;
		pointers[i] = &items[i];
	}
	message.block_metadata_type = (Csi__V1__BlockMetadataType)type;
	message.volume_capacity_bytes = (int64_t)capacity;
	message.n_block_metadata = n;
	message.block_metadata = pointers;
	return csi__v1__get_metadata_delta_response__pack(&message, out);
}

static size_t pack_own(const struct tuple *tuples, size_t n, int type, uint64_t capacity,
		       uint8_t *out, size_t cap)
{
	struct proto_block_writer w;

	proto_block_begin(&w, out, cap, (enum proto_block_type)type, capacity);
	for (size_t i = 0; i < n; i++)
		assert_true(proto_block_add(&w, tuples[i].offset, tuples[i].length));
	return proto_block_len(&w);
}

static void written_bytes_are_those_of_protobuf_c(void **state)
{
	uint8_t own[PROTO_BLOCK_ROOM(TUPLES_MAX)], reference[PROTO_BLOCK_ROOM(TUPLES_MAX)];
	struct tuple tuples[TUPLES_MAX];

	(void)state;
	rng_state = 1;
	for (unsigned round = 0; round < 20000; round++) {
		size_t n = rng() % (TUPLES_MAX + 1);
		int type = (int)(rng() % 3);
		uint64_t capacity = rng_number(63);
		size_t want, got;

		for (size_t i = 0; i < n; i++)
			tuples[i] = (struct tuple){rng_number(63), rng_number(63)};
		want = pack_reference(tuples, n, type, capacity, reference);
		got = pack_own(tuples, n, type, capacity, own, PROTO_BLOCK_ROOM(n ? n : 1));
		assert_int_equal(got, want);
		assert_memory_equal(own, reference, want);
	}
}

static void largest_numbers_fit_the_promised_room(void **state)
{
	const struct tuple largest = {INT64_MAX, INT64_MAX};
	struct tuple tuples[TUPLES_MAX];
	uint8_t own[PROTO_BLOCK_ROOM(TUPLES_MAX)];
	size_t len;

	(void)state;
	for (size_t i = 0; i < TUPLES_MAX; i++)
		tuples[i] = largest;
	len = pack_own(tuples, TUPLES_MAX, PROTO_BLOCK_VARIABLE, INT64_MAX, own, sizeof(own));
	assert_true(len <= sizeof(own) - PROTO_BLOCK_SLACK);
}

static void a_full_buffer_ends_the_message_and_is_not_overrun(void **state)
{
	uint8_t out[PROTO_BLOCK_ROOM(4) + 16];
	struct proto_block_scan scan = {0};
	struct proto_block_writer w;
	struct cairn_err err = {0};
	unsigned n = 0;

	(void)state;
	memset(out, 0xee, sizeof(out));
	proto_block_begin(&w, out, PROTO_BLOCK_ROOM(4), PROTO_BLOCK_FIXED, 1ULL << 62);
	while (proto_block_add(&w, (1ULL << 61) + n * 4096ULL, 4096))
		n++;
	assert_true(n >= 4);
	for (size_t i = PROTO_BLOCK_ROOM(4); i < sizeof(out); i++)
		assert_int_equal(out[i], 0xee);
	assert_ok(proto_block_scan(&scan, out, proto_block_len(&w), NULL, &err), &err);
	assert_int_equal(scan.tuples, n);
}

struct list {
	struct tuple tuples[2 * TUPLES_MAX];
	size_t n;
	int stop_at; /* the sink's answer once it has so many; 0 is never */
};

static int list_emit(void *arg, const struct block_extent *extent, struct cairn_err *err)
{
	struct list *list = arg;

	assert_true(list->n < ARRAY_LEN(list->tuples));
	list->tuples[list->n++] = (struct tuple){extent->offset, extent->length};
	if (list->stop_at && list->n == (size_t)list->stop_at)
		return cairn_err_set(err, CAIRN_ABORTED, "enough");
	return 0;
}

/* Puts an unknown field of a random kind at `out`; returns its size. */
static size_t put_unknown(uint8_t *out)
{
	uint64_t field = 4 + rng() % 1000;
	uint8_t *p = out;

	switch (rng() % 5) {
	case 0:
		p = proto_varint_put(p, field << 3 | PROTO_WIRE_VARINT);
		return (size_t)(proto_varint_put(p, rng_number(64)) - out);
	case 1:
		p = proto_varint_put(p, field << 3 | PROTO_WIRE_I64);
		memset(p, 0xff, 8);
		return (size_t)(p + 8 - out);
	case 2:
		p = proto_varint_put(p, field << 3 | PROTO_WIRE_I32);
		memset(p, 0x1a, 4);
		return (size_t)(p + 4 - out);
	case 3:
		p = proto_varint_put(p, field << 3 | PROTO_WIRE_LEN);
		*p++ = 5;
		memset(p, 0x1a, 5);
		return (size_t)(p + 5 - out);
	default: /* a group that holds a number */
		p = proto_varint_put(p, field << 3 | PROTO_WIRE_GROUP);
		p = proto_varint_put(p, 1 << 3 | PROTO_WIRE_VARINT);
		p = proto_varint_put(p, rng_number(64));
		return (size_t)(proto_varint_put(p, field << 3 | PROTO_WIRE_END) - out);
	}
}

/* The tuple's fields in either order, doubled, padded or mixed with others. */
static uint8_t *put_odd_tuple(uint8_t *out, struct tuple tuple)
{
	uint8_t body[128], *p = body;
	bool swap = rng() % 2;

	if (rng() % 3 == 0)
		p += put_unknown(p);
	if (rng() % 3 == 0) { /* overruled by the one that follows */
		*p++ = 1 << 3;
		p = proto_varint_put(p, rng_number(63));
	}
	for (int i = 0; i < 2; i++) {
		bool offset = (i == 0) != swap;

		*p++ = (uint8_t)((offset ? 1 : 2) << 3);
		p = proto_varint_put(p, offset ? tuple.offset : tuple.length);
		if (rng() % 4 == 0) { /* a longer form of the same number */
			p[-1] |= 0x80;
			*p++ = 0x80;
			*p++ = 0;
			if (offset ? tuple.offset >> 48 : tuple.length >> 48)
				p -= 2, p[-1] &= 0x7f;
		}
	}
	if (rng() % 3 == 0)
		p += put_unknown(p);
	*out++ = 3 << 3 | PROTO_WIRE_LEN;
	out = proto_varint_put(out, (uint64_t)(p - body));
	memcpy(out, body, (size_t)(p - body));
	return out + (p - body);
}

static void every_legal_form_of_a_message_is_read_the_same(void **state)
{
	(void)state;
	rng_state = 2;
	for (unsigned round = 0; round < 20000; round++) {
		struct proto_block_scan scan = {0};
		struct list got = {.n = 0};
		struct block_sink sink = {.emit = list_emit, .arg = &got};
		struct cairn_err err = {0};
		struct tuple tuples[8];
		size_t n = 1 + rng() % ARRAY_LEN(tuples);
		uint64_t at = rng_number(50);
		uint8_t out[4096], *p = out;
		bool head_last = rng() % 2;

		for (size_t i = 0; i < n; i++) {
			tuples[i] = (struct tuple){at, 1 + rng_number(40)};
			at += tuples[i].length + rng_number(30);
		}
		for (int part = 0; part < 2; part++) {
			if ((part == 0) == head_last) {
				for (size_t i = 0; i < n; i++)
					p = put_odd_tuple(p, tuples[i]);
				continue;
			}
			p += put_unknown(p);
			*p++ = 2 << 3;
			p = proto_varint_put(p, 77);
			*p++ = 1 << 3;
			*p++ = PROTO_BLOCK_VARIABLE;
			*p++ = 2 << 3;
			p = proto_varint_put(p, at);
		}
		assert_ok(proto_block_scan(&scan, out, (size_t)(p - out), &sink, &err), &err);
		assert_int_equal(got.n, n);
		assert_memory_equal(got.tuples, tuples, n * sizeof(tuples[0]));
		assert_int_equal(scan.capacity, at);
		assert_int_equal(scan.end, tuples[n - 1].offset + tuples[n - 1].length);
	}
}

/* Do protobuf-c's objects obey the rules of a stream's first message? */
static bool reference_obeys(const Csi__V1__GetMetadataDeltaResponse *m)
{
	int64_t end = 0;

	if (m->volume_capacity_bytes < 0 || m->block_metadata_type < 0 ||
	    m->block_metadata_type > 2)
		return false;
	for (size_t i = 0; i < m->n_block_metadata; i++) {
		const Csi__V1__BlockMetadata *b = m->block_metadata[i];
		int64_t sum;

		if (b->size_bytes <= 0 || b->byte_offset < end ||
		    __builtin_add_overflow(b->byte_offset, b->size_bytes, &sum) ||
		    b->byte_offset >= m->volume_capacity_bytes)
			return false;
		if (m->block_metadata_type == CSI__V1__BLOCK_METADATA_TYPE__FIXED_LENGTH &&
		    b->size_bytes != m->block_metadata[0]->size_bytes)
			return false;
		end = sum;
	}
	return true;
}

static void what_is_accepted_is_what_protobuf_c_reads(void **state)
{
	unsigned accepted = 0, refused = 0;

	(void)state;
	rng_state = 3;
	for (unsigned round = 0; round < 100000; round++) {
		struct proto_block_scan scan = {0};
		struct list got = {.n = 0};
		struct block_sink sink = {.emit = list_emit, .arg = &got};
		Csi__V1__GetMetadataDeltaResponse *m;
		struct tuple tuples[6];
		uint64_t at = rng_number(20);
		size_t n = rng() % (ARRAY_LEN(tuples) + 1), len;
		uint8_t out[PROTO_BLOCK_ROOM(6)];
		int rc;

		for (size_t i = 0; i < n; i++) {
			tuples[i] = (struct tuple){at, 4096};
			at += 4096 + rng_number(14);
		}
		len = pack_own(tuples, n, (int)(rng() % 3), at + rng_number(10), out, sizeof(out));
		if (len > 0)
			out[rng() % len] ^= (uint8_t)(1U << (rng() % 8));
		rc = proto_block_scan(&scan, out, len, &sink, NULL);
		m = csi__v1__get_metadata_delta_response__unpack(NULL, len, out);
		if (rc == 0) {
			accepted++;
			if (m) { /* NULL: protobuf-c does not know groups */
				assert_int_equal(m->n_block_metadata, got.n);
				for (size_t i = 0; i < got.n; i++) {
					assert_int_equal(m->block_metadata[i]->byte_offset,
							 got.tuples[i].offset);
					assert_int_equal(m->block_metadata[i]->size_bytes,
							 got.tuples[i].length);
				}
				assert_int_equal(m->volume_capacity_bytes, scan.capacity);
				assert_int_equal(m->block_metadata_type, scan.type);
				assert_true(reference_obeys(m));
			}
		} else {
			refused++;
			if (m && reference_obeys(m))
				fail_msg("round %u: refused what protobuf-c takes", round);
		}
		csi__v1__get_metadata_delta_response__free_unpacked(m, NULL);
	}
	assert_true(accepted > 10000);
	assert_true(refused > 10000);
}

static int scan_tuples(struct proto_block_scan *scan, const struct tuple *tuples, size_t n,
		       int type, uint64_t capacity, struct cairn_err *err)
{
	uint8_t out[PROTO_BLOCK_ROOM(TUPLES_MAX)];
	size_t len = pack_reference(tuples, n, type, capacity, out);

	return proto_block_scan(scan, out, len, NULL, err);
}

#define FIXED PROTO_BLOCK_FIXED
#define VARIA PROTO_BLOCK_VARIABLE
#define CAP   (1ULL << 40)

static void streams_that_break_a_rule_are_refused(void **state)
{
	static const struct {
		const char *name;
		uint64_t start;
		uint32_t max_results;
		struct {
			int type;
			uint64_t capacity;
			size_t n;
			struct tuple t[3];
		} m[2];
		size_t messages;
		const char *why; /* NULL: legal */
	} cases[] = {
		{"one tuple", 0, 0, {{FIXED, CAP, 1, {{0, 4096}}}}, 1, NULL},
		{"touching", 0, 0, {{VARIA, CAP, 2, {{0, 4096}, {4096, 1}}}}, 1, NULL},
		{"touching over messages",
		 0,
		 0,
		 {{FIXED, CAP, 1, {{0, 512}}}, {FIXED, CAP, 1, {{512, 512}}}},
		 2,
		 NULL},
		{"empty stream", 0, 0, {{VARIA, CAP, 0, {{0, 0}}}}, 1, NULL},
		{"no type is a type", 0, 0, {{0, CAP, 1, {{0, 4096}}}}, 1, NULL},
		{"last block past the end",
		 0,
		 0,
		 {{FIXED, 5000, 2, {{0, 4096}, {4096, 4096}}}},
		 1,
		 NULL},
		{"straddles the start", 100, 0, {{VARIA, CAP, 1, {{0, 101}}}}, 1, NULL},
		{"ends at the start", 100, 0, {{VARIA, CAP, 1, {{0, 100}}}}, 1, "offset asked for"},
		{"exactly max_results", 0, 2, {{VARIA, CAP, 2, {{0, 1}, {1, 1}}}}, 1, NULL},
		{"above max_results",
		 0,
		 2,
		 {{VARIA, CAP, 3, {{0, 1}, {1, 1}, {2, 1}}}},
		 1,
		 "max_results"},
		{"size 0", 0, 0, {{VARIA, CAP, 1, {{7, 0}}}}, 1, "no size"},
		{"size negative", 0, 0, {{VARIA, CAP, 1, {{7, -1ULL}}}}, 1, "no size"},
		{"offset negative", 0, 0, {{VARIA, CAP, 1, {{-5ULL, 9}}}}, 1, "negative offset"},
		{"end overflows",
		 0,
		 0,
		 {{VARIA, INT64_MAX, 1, {{INT64_MAX - 1, 2}}}},
		 1,
		 "past what"},
		{"overlap", 0, 0, {{VARIA, CAP, 2, {{0, 4096}, {4095, 1}}}}, 1, "before the last"},
		{"descending", 0, 0, {{VARIA, CAP, 2, {{8192, 1}, {0, 1}}}}, 1, "before the last"},
		{"same twice", 0, 0, {{VARIA, CAP, 2, {{0, 1}, {0, 1}}}}, 1, "before the last"},
		{"overlap over messages",
		 0,
		 0,
		 {{FIXED, CAP, 1, {{0, 512}}}, {FIXED, CAP, 1, {{511, 512}}}},
		 2,
		 "before the last"},
		{"type changes",
		 0,
		 0,
		 {{FIXED, CAP, 1, {{0, 512}}}, {VARIA, CAP, 1, {{512, 512}}}},
		 2,
		 "changes the block metadata type"},
		{"capacity changes",
		 0,
		 0,
		 {{FIXED, CAP, 1, {{0, 512}}}, {FIXED, CAP + 1, 1, {{512, 512}}}},
		 2,
		 "changes the volume capacity"},
		{"type unheard of",
		 0,
		 0,
		 {{3, CAP, 0, {{0, 0}}}},
		 1,
		 "unknown block metadata type"},
		{"capacity negative", 0, 0, {{FIXED, -1ULL, 0, {{0, 0}}}}, 1, "negative volume"},
		{"begins at the capacity",
		 0,
		 0,
		 {{VARIA, 4096, 1, {{4096, 1}}}},
		 1,
		 "past the volume"},
		{"no capacity", 0, 0, {{VARIA, 0, 1, {{0, 1}}}}, 1, "past the volume"},
		{"fixed with two sizes",
		 0,
		 0,
		 {{FIXED, CAP, 2, {{0, 1}, {9, 2}}}},
		 1,
		 "several sizes"},
		{"fixed with two sizes over messages",
		 0,
		 0,
		 {{FIXED, CAP, 1, {{0, 512}}}, {FIXED, CAP, 1, {{512, 513}}}},
		 2,
		 "several sizes"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct proto_block_scan scan = {.starting_offset = cases[i].start,
						.max_results = cases[i].max_results};
		struct cairn_err err = {0};
		int rc = 0;

		for (size_t m = 0; m < cases[i].messages; m++) {
			assert_int_equal(rc, 0);
			rc = scan_tuples(&scan, cases[i].m[m].t, cases[i].m[m].n,
					 cases[i].m[m].type, cases[i].m[m].capacity, &err);
		}
		if (rc != (cases[i].why ? CAIRN_INTERNAL : 0))
			fail_msg("%s: got %d (%s)", cases[i].name, rc, err.msg);
		if (cases[i].why && !strstr(err.msg, cases[i].why))
			fail_msg("%s: '%s' does not say '%s'", cases[i].name, err.msg,
				 cases[i].why);
	}
}

static void malformed_bytes_are_refused(void **state)
{
	static const struct {
		const char *name;
		uint8_t bytes[16];
		size_t len;
	} cases[] = {
		{"field number 0", {0x00, 0x01}, 2},
		{"tag without value", {0x08}, 1},
		{"endless number", {0x10, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 12},
		{"number past 64 bits", {0x10, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2}, 11},
		{"tuple longer than the message", {0x1a, 5, 0x10, 1}, 4},
		{"tuple ends inside a number", {0x1a, 2, 0x10, 0x80, 0x01}, 5},
		{"type as bytes", {0x0a, 1, 1}, 3},
		{"capacity as fixed64", {0x11, 1, 2, 3, 4, 5, 6, 7, 8}, 9},
		{"tuple as number", {0x18, 1}, 2},
		{"offset as bytes", {0x1a, 3, 0x0a, 1, 1}, 5},
		{"wire type 6", {0x26}, 1},
		{"wire type 7", {0x27, 0}, 2},
		{"group that never ends", {0x23, 0x08, 1}, 3},
		{"end of no group", {0x24}, 1},
		{"groups crossed", {0x23, 0x2b, 0x24, 0x2c}, 4},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct proto_block_scan scan = {0};
		struct cairn_err err = {0};

		if (proto_block_scan(&scan, cases[i].bytes, cases[i].len, NULL, &err) !=
		    CAIRN_INTERNAL)
			fail_msg("%s was accepted", cases[i].name);
		assert_non_null(strstr(err.msg, "malformed"));
	}
}

static void groups_may_nest_only_so_deep(void **state)
{
	uint8_t bytes[2 * (PROTO_GROUP_DEPTH_MAX + 1)];

	(void)state;
	for (size_t depth = PROTO_GROUP_DEPTH_MAX; depth <= PROTO_GROUP_DEPTH_MAX + 1; depth++) {
		struct proto_block_scan scan = {0};

		memset(bytes, 0x23, depth);
		memset(bytes + depth, 0x24, depth);
		assert_int_equal(proto_block_scan(&scan, bytes, 2 * depth, NULL, NULL),
				 depth <= PROTO_GROUP_DEPTH_MAX ? 0 : CAIRN_INTERNAL);
	}
}

static void a_sink_that_stops_stops_the_scan(void **state)
{
	const struct tuple tuples[] = {{0, 1}, {1, 1}, {2, 1}};
	struct list got = {.stop_at = 2};
	struct block_sink sink = {.emit = list_emit, .arg = &got};
	struct proto_block_scan scan = {0};
	struct cairn_err err = {0};
	uint8_t out[128];
	size_t len = pack_reference(tuples, 3, VARIA, CAP, out);

	(void)state;
	assert_int_equal(proto_block_scan(&scan, out, len, &sink, &err), CAIRN_ABORTED);
	assert_int_equal(got.n, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_bytes_are_those_of_protobuf_c),
		cmocka_unit_test(largest_numbers_fit_the_promised_room),
		cmocka_unit_test(a_full_buffer_ends_the_message_and_is_not_overrun),
		cmocka_unit_test(every_legal_form_of_a_message_is_read_the_same),
		cmocka_unit_test(what_is_accepted_is_what_protobuf_c_reads),
		cmocka_unit_test(streams_that_break_a_rule_are_refused),
		cmocka_unit_test(malformed_bytes_are_refused),
		cmocka_unit_test(groups_may_nest_only_so_deep),
		cmocka_unit_test(a_sink_that_stops_stops_the_scan),
	};

	return cmocka_run_group_tests_name("proto/block_metadata", tests, NULL, NULL);
}
