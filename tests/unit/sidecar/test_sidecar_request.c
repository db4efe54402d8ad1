/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "csi_metadata.pb-c.h"
#include "proto/message.h"
#include "sidecar/secret.h"
#include "sidecar/sidecar_request.h"
#include "snapshotmetadata.pb-c.h"

static char *text(const char *s)
{
	return (char *)(uintptr_t)s;
}

struct in {
	const char *token, *ns, *base, *snapshot;
	int64_t offset;
	int32_t max;
};

static int read_back(bool delta, const struct in *in, struct sidecar_request *ret,
		     struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(1U << 20);
	Snapshotmetadata__GetMetadataAllocatedRequest a;
	Snapshotmetadata__GetMetadataDeltaRequest d;

	snapshotmetadata__get_metadata_allocated_request__init(&a);
	snapshotmetadata__get_metadata_delta_request__init(&d);
	a.security_token = d.security_token = text(in->token);
	a.namespace_ = d.namespace_ = text(in->ns);
	a.snapshot_name = d.target_snapshot_name = text(in->snapshot);
	d.base_snapshot_id = text(in->base);
	a.starting_offset = d.starting_offset = in->offset;
	a.max_results = d.max_results = in->max;
	proto_pack(delta ? &d.base : &a.base, &buf);
	assert_false(cairn_buf_failed(&buf));
	return sidecar_request_read(delta, buf.data, buf.len, ret, err);
}

static void a_request_is_read_whole(void **state)
{
	const struct in in = {"t", "ns-1", "h/1 ü", "snap.shot", 1LL << 40, 77};

	(void)state;
	for (int delta = 0; delta < 2; delta++) {
		cairn_cleanup(sidecar_request_done) struct sidecar_request r = {0};
		struct cairn_err err = {0};

		assert_ok(read_back(delta, &in, &r, &err), &err);
		assert_int_equal(r.delta, delta);
		assert_string_equal(r.token, "t");
		assert_string_equal(r.ns, "ns-1");
		assert_string_equal(r.snapshot, "snap.shot");
		assert_string_equal(r.base, delta ? "h/1 ü" : "");
		assert_int_equal(r.starting_offset, 1LL << 40);
		assert_int_equal(r.max_results, 77);
	}
}

static char long_text[SIDECAR_TOKEN_MAX + 2];

static void what_is_wrong_is_said_as_upstream_says_it(void **state)
{
	const struct {
		int delta; /* 2: both */
		struct in in;
		int code;
		const char *want;
	} cases[] = {
		{2, {"", "n", "b", "s", 0, 0}, CAIRN_INVALID, "securityToken is missing"},
		{2,
		 {"t", "", "b", "s", 0, 0},
		 CAIRN_INVALID,
		 "namespace parameter cannot be empty"},
		{0, {"t", "n", "b", "", 0, 0}, CAIRN_INVALID, "snapshotName cannot be empty"},
		{1, {"t", "n", "b", "", 0, 0}, CAIRN_INVALID, "targetSnapshotName cannot be empty"},
		{1, {"t", "n", "", "s", 0, 0}, CAIRN_INVALID, "baseSnapshotId cannot be empty"},
		{2, {"t", "n", "b", "s", 0, -1}, CAIRN_INVALID, "maxResults must not be negative"},
		{2,
		 {"t", "n", "b", "s", -1, 0},
		 CAIRN_RANGE,
		 "startingOffset must not be negative"},
		{2, {"t", "../kube-system", "b", "s", 0, 0}, CAIRN_INVALID, "is not a name"},
		{2, {"t", "n", "b", "a/../b", 0, 0}, CAIRN_INVALID, "is not a name"},
		{2, {"t", "n", "b", "..", 0, 0}, CAIRN_INVALID, "is not a name"},
		{2, {"t", "N", "b", "s", 0, 0}, CAIRN_INVALID, "is not a name"},
		{2, {"t", "n", "b", "s\n", 0, 0}, CAIRN_INVALID, "is not a name"},
		{2, {long_text, "n", "b", "s", 0, 0}, CAIRN_INVALID, "securityToken is too long"},
		{1, {"t", "n", long_text, "s", 0, 0}, CAIRN_INVALID, "baseSnapshotId is too long"},
	};

	(void)state;
	memset(long_text, 'x', sizeof(long_text) - 1);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (int delta = 0; delta < 2; delta++) {
			struct sidecar_request r = {0};
			struct cairn_err err = {0};

			if (cases[i].delta != 2 && cases[i].delta != delta)
				continue;
			assert_int_equal(read_back(delta, &cases[i].in, &r, &err), cases[i].code);
			if (!strstr(err.msg, cases[i].want))
				fail_msg("'%s' is not in '%s'", cases[i].want, err.msg);
			assert_null(r.token);
		}
	}
}

static void bytes_that_are_no_request_are_refused(void **state)
{
	static const char *const bytes[] = {"\xff", "\x0a\x05t", "\x08", "\x0a\x01\xff"};
	struct sidecar_request r = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bytes); i++)
		assert_code(sidecar_request_read(true, (const uint8_t *)bytes[i], strlen(bytes[i]),
						 &r, NULL),
			    CAIRN_INVALID);
}

static void the_drivers_request_has_the_handle_and_the_secret(void **state)
{
	const struct in in = {"token", "ns", "base", "snap", 4096, 5};
	struct sidecar_secret_entry entries[] = {{text("user"), text("u"), 1},
						 {text("password"), text("p"), 1}};
	struct sidecar_secret secret = {.entries = entries, .n = 2};

	(void)state;
	for (int delta = 0; delta < 2; delta++) {
		cairn_cleanup(sidecar_request_done) struct sidecar_request r = {0};
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(1U << 20);
		proto_auto_message ProtobufCMessage *message = NULL;
		struct cairn_err err = {0};

		assert_ok(read_back(delta, &in, &r, &err), &err);
		assert_ok(sidecar_request_pack(&r, "handle", &secret, &buf, &err), &err);
		assert_null(memmem(buf.data, buf.len, "token", 5)); /* never to a driver */
		if (delta) {
			const Csi__V1__GetMetadataDeltaRequest *d;

			assert_ok(proto_unpack(&csi__v1__get_metadata_delta_request__descriptor,
					       buf.data, buf.len, &message, &err),
				  &err);
			d = (const void *)message;
			assert_string_equal(d->base_snapshot_id, "base");
			assert_string_equal(d->target_snapshot_id, "handle");
			assert_int_equal(d->starting_offset, 4096);
			assert_int_equal(d->max_results, 5);
			assert_int_equal(d->n_secrets, 2);
			assert_string_equal(d->secrets[1]->key, "password");
			assert_string_equal(d->secrets[1]->value, "p");
		} else {
			const Csi__V1__GetMetadataAllocatedRequest *a;

			assert_ok(proto_unpack(&csi__v1__get_metadata_allocated_request__descriptor,
					       buf.data, buf.len, &message, &err),
				  &err);
			a = (const void *)message;
			assert_string_equal(a->snapshot_id, "handle");
			assert_int_equal(a->starting_offset, 4096);
			assert_int_equal(a->max_results, 5);
			assert_int_equal(a->n_secrets, 2);
			assert_string_equal(a->secrets[0]->value, "u");
		}
	}
}

static void a_request_too_large_for_a_driver_is_an_error(void **state)
{
	const struct in in = {"token", "ns", "base", "snap", 0, 0};
	cairn_cleanup(sidecar_request_done) struct sidecar_request r = {0};
	cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(4);
	struct cairn_err err = {0};

	(void)state;
	assert_ok(read_back(true, &in, &r, &err), &err);
	assert_code(sidecar_request_pack(&r, "handle", NULL, &buf, &err), CAIRN_NO_SPACE);
}

static void short_memory_is_an_error_at_every_allocation(void **state)
{
	const struct in in = {"token", "ns", "base", "snap", 0, 0};
	int rc = CAIRN_NO_SPACE;

	(void)state;
	for (size_t n = 1; rc != 0; n++) {
		struct sidecar_request r = {0};
		cairn_auto_buf struct cairn_buf buf = CAIRN_BUF_INIT(1U << 20);
		Snapshotmetadata__GetMetadataDeltaRequest d;

		snapshotmetadata__get_metadata_delta_request__init(&d);
		d.security_token = text(in.token);
		d.namespace_ = text(in.ns);
		d.base_snapshot_id = text(in.base);
		d.target_snapshot_name = text(in.snapshot);
		proto_pack(&d.base, &buf);
		cairn_mem_fail_at(n, 0);
		rc = sidecar_request_read(true, buf.data, buf.len, &r, NULL);
		cairn_mem_fail_at(0, 0);
		assert_true(rc == 0 || rc == CAIRN_NO_SPACE);
		sidecar_request_done(&r);
		assert_true(n < 100);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_read_whole),
		cmocka_unit_test(what_is_wrong_is_said_as_upstream_says_it),
		cmocka_unit_test(bytes_that_are_no_request_are_refused),
		cmocka_unit_test(the_drivers_request_has_the_handle_and_the_secret),
		cmocka_unit_test(a_request_too_large_for_a_driver_is_an_error),
		cmocka_unit_test(short_memory_is_an_error_at_every_allocation),
	};

	return cmocka_run_group_tests_name("sidecar/request", tests, NULL, NULL);
}
