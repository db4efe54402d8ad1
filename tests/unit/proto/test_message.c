/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "csi_controller.pb-c.h"
#include "csi_metadata.pb-c.h"
#include "proto/message.h"
#include "proto/text_map.h"
#include "proto/wire.h"

#define DELTA (&csi__v1__get_metadata_delta_request__descriptor)

static void a_packed_message_unpacks_to_the_same(void **state)
{
	Csi__V1__GetMetadataDeltaRequest sent;
	Csi__V1__GetMetadataDeltaRequest__SecretsEntry entry;
	Csi__V1__GetMetadataDeltaRequest__SecretsEntry *entries[] = {&entry};
	proto_auto_message ProtobufCMessage *message = NULL;
	cairn_cleanup(cairn_buf_done) struct cairn_buf buf = CAIRN_BUF_INIT(1024);
	const Csi__V1__GetMetadataDeltaRequest *got;
	struct cairn_err err = {0};

	(void)state;
	csi__v1__get_metadata_delta_request__init(&sent);
	csi__v1__get_metadata_delta_request__secrets_entry__init(&entry);
	entry.key = (char[]){"user"};
	entry.value = (char[]){"w\xc3\xb6rd"};
	sent.base_snapshot_id = (char[]){"s1"};
	sent.target_snapshot_id = (char[]){"s2"};
	sent.starting_offset = INT64_MAX;
	sent.n_secrets = 1;
	sent.secrets = entries;
	proto_pack(&sent.base, &buf);
	assert_false(cairn_buf_failed(&buf));

	assert_ok(proto_unpack(DELTA, buf.data, buf.len, &message, &err), &err);
	got = (const Csi__V1__GetMetadataDeltaRequest *)message;
	assert_string_equal(got->base_snapshot_id, "s1");
	assert_string_equal(got->target_snapshot_id, "s2");
	assert_true(got->starting_offset == INT64_MAX);
	assert_int_equal(got->n_secrets, 1);
	assert_string_equal(got->secrets[0]->value, "w\xc3\xb6rd");
}

static void a_map_of_strings_is_packed_with_all_entries(void **state)
{
	cairn_cleanup(proto_text_map_done) struct proto_text_map map = {0};
	cairn_cleanup(cairn_buf_done) struct cairn_buf buf = CAIRN_BUF_INIT(1024);
	proto_auto_message ProtobufCMessage *message = NULL;
	Csi__V1__GetMetadataDeltaRequest sent;
	const Csi__V1__GetMetadataDeltaRequest *got;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(proto_text_map_init(
			  &map, &csi__v1__get_metadata_delta_request__secrets_entry__descriptor, 2,
			  &err),
		  &err);
	proto_text_map_add(&map, "user", "admin");
	proto_text_map_add(&map, "password", NULL);
	csi__v1__get_metadata_delta_request__init(&sent);
	sent.n_secrets = map.n;
	sent.secrets = map.entries;
	proto_pack(&sent.base, &buf);

	assert_ok(proto_unpack(DELTA, buf.data, buf.len, &message, &err), &err);
	got = (const Csi__V1__GetMetadataDeltaRequest *)message;
	assert_int_equal(got->n_secrets, 2);
	assert_string_equal(got->secrets[0]->key, "user");
	assert_string_equal(got->secrets[0]->value, "admin");
	assert_string_equal(got->secrets[1]->key, "password");
	assert_string_equal(got->secrets[1]->value, "");
}

static void no_bytes_are_an_empty_message(void **state)
{
	proto_auto_message ProtobufCMessage *message = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_ok(proto_unpack(DELTA, NULL, 0, &message, &err), &err);
	assert_string_equal(((Csi__V1__GetMetadataDeltaRequest *)message)->base_snapshot_id, "");
}

static void bad_messages_are_refused(void **state)
{
	static const struct {
		const char *name;
		const char *bytes;
		size_t len;
		const char *why;
	} cases[] = {
		{"a NUL inside a name",
		 "\x0a\x03"
		 "a\0b",
		 5, "base_snapshot_id"},
		{"a name that is not UTF-8", "\x12\x02\xc3\x28", 4, "target_snapshot_id"},
		{"a NUL inside a secret's key", "\x2a\x04\x0a\x02k\0", 6, "key"},
		{"bytes that end inside a name",
		 "\x0a\x05"
		 "ab",
		 4, "malformed"},
		{"a number where text belongs", "\x08\x01", 2, "malformed"},
		{"field number 0", "\x02\x01x", 3, "malformed"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		ProtobufCMessage *message = NULL;
		struct cairn_err err = {0};
		int rc = proto_unpack(DELTA, (const uint8_t *)cases[i].bytes, cases[i].len,
				      &message, &err);

		if (rc != CAIRN_INVALID || message)
			fail_msg("%s: got %d", cases[i].name, rc);
		if (!strstr(err.msg, cases[i].why))
			fail_msg("%s: '%s'", cases[i].name, err.msg);
	}
}

static void few_bytes_cannot_take_much_memory(void **state)
{
	size_t len = 4U << 20;
	cairn_auto_free uint8_t *bytes = cairn_alloc(len);
	ProtobufCMessage *message = NULL;
	struct cairn_err err = {0};

	(void)state;
	assert_non_null(bytes);
	for (size_t i = 0; i + 1 < len; i += 2) { /* empty volume capabilities */
		bytes[i] = 3 << 3 | PROTO_WIRE_LEN;
		bytes[i + 1] = 0;
	}
	assert_int_equal(proto_unpack(&csi__v1__create_volume_request__descriptor, bytes, len,
				      &message, &err),
			 CAIRN_NO_SPACE);
	assert_null(message);
}

static void short_memory_is_an_error_at_every_allocation(void **state)
{
	static const uint8_t bytes[] = "\x0a\x02s1\x12\x02s2\x2a\x06\x0a\x01k\x12\x01v";
	struct cairn_err err = {0};
	size_t failed = 0;

	(void)state;
	for (size_t n = 1; n < 100; n++) {
		ProtobufCMessage *message = NULL;
		int rc;

		cairn_mem_fail_at(n, 0);
		rc = proto_unpack(DELTA, bytes, sizeof(bytes) - 1, &message, &err);
		cairn_mem_fail_at(0, 0);
		proto_message_free(message);
		if (rc == 0)
			break;
		assert_int_equal(rc, CAIRN_NO_SPACE);
		failed++;
	}
	assert_true(failed >= 4 && failed < 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packed_message_unpacks_to_the_same),
		cmocka_unit_test(a_map_of_strings_is_packed_with_all_entries),
		cmocka_unit_test(no_bytes_are_an_empty_message),
		cmocka_unit_test(bad_messages_are_refused),
		cmocka_unit_test(few_bytes_cannot_take_much_memory),
		cmocka_unit_test(short_memory_is_an_error_at_every_allocation),
	};

	return cmocka_run_group_tests_name("proto/message", tests, NULL, NULL);
}
