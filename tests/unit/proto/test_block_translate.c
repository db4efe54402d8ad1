/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "base/cleanup.h"
#include "csi_metadata.pb-c.h"
#include "proto/block_metadata.h"
#include "proto/block_translate.h"
#include "proto/message.h"
#include "snapshot_session.pb-c.h"

static void types_change_and_blocks_stay(void **state)
{
	static const struct {
		enum proto_block_type type;
		BlockMetadataType becomes;
	} cases[] = {
		{PROTO_BLOCK_FIXED, BLOCK_METADATA_TYPE__FIXED_LENGTH},
		{PROTO_BLOCK_VARIABLE, BLOCK_METADATA_TYPE__VARIABLE_LENGTH},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t message[PROTO_BLOCK_ROOM(100)];
		uint8_t out[sizeof(message)];
		struct proto_block_writer writer;
		proto_auto_message ProtobufCMessage *read = NULL;
		const GetDeltaResponse *response;
		struct cairn_err err = {0};
		size_t n;

		proto_block_begin(&writer, message, sizeof(message), cases[i].type, 1ULL << 40);
		for (uint64_t k = 0; k < 100; k++)
			assert_true(proto_block_add(&writer, k * 8192, 4096));
		assert_true(proto_block_translate(message, proto_block_len(&writer), out, &n));
		assert_ok(proto_unpack(&get_delta_response__descriptor, out, n, &read, &err), &err);
		response = (const void *)read;
		assert_int_equal(response->block_metadata_type, cases[i].becomes);
		assert_int_equal(response->volume_size_bytes, 1ULL << 40);
		assert_int_equal(response->n_block_metadata, 100);
		assert_int_equal(response->block_metadata[99]->byte_offset, 99 * 8192);
		assert_int_equal(response->block_metadata[99]->size_bytes, 4096);
	}
}

static void the_type_may_stand_anywhere_and_the_last_counts(void **state)
{
	static const struct {
		const char *in;
		size_t n;
		const char *out;
		size_t n_out;
	} cases[] = {
		{"\x10\x05\x08\x02", 4, "\x08\x01\x10\x05", 4},
		{"\x10\x05\x08\x01", 4, "\x10\x05", 2},
		{"\x08\x01\x10\x05\x08\x02", 6, "\x08\x01\x10\x05", 4},
		{"\x08\x02\x10\x05\x08\x01", 6, "\x10\x05", 2},
		{"\x08\x82\x00\x10\x05", 5, "\x08\x01\x10\x05", 4}, /* a long form of 2 */
		{"\x08\x02\x22\x01x", 5, "\x08\x01\x22\x01x", 5},   /* a field of later days */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t out[16];
		size_t n = 0;

		assert_true(
			proto_block_translate((const uint8_t *)cases[i].in, cases[i].n, out, &n));
		assert_int_equal(n, cases[i].n_out);
		assert_memory_equal(out, cases[i].out, n);
	}
}

static void what_has_no_type_is_refused(void **state)
{
	static const struct {
		const char *in;
		size_t n;
	} cases[] = {
		{"", 0},         {"\x08", 1},         {"\x10\x05", 2},     {"\x08\x00", 2},
		{"\x08\x03", 2}, {"\x08\x02\x1a", 3}, {"\x0a\x01\x02", 3}, {"\x08\x02\x00\x00", 4},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint8_t out[16];
		size_t n;

		assert_false(
			proto_block_translate((const uint8_t *)cases[i].in, cases[i].n, out, &n));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(types_change_and_blocks_stay),
		cmocka_unit_test(the_type_may_stand_anywhere_and_the_last_counts),
		cmocka_unit_test(what_has_no_type_is_refused),
	};

	return cmocka_run_group_tests_name("proto/block_translate", tests, NULL, NULL);
}
