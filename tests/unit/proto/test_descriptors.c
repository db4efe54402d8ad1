/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>

#include "proto/descriptors.h"

/* The file name stands first in a FileDescriptorProto: tag, length, bytes. */
static bool file_is_called(struct proto_bytes file, const char *name)
{
	return file.len > 2 && file.data[1] == strlen(name) &&
	       memcmp(file.data + 2, name, strlen(name)) == 0;
}

static void a_symbol_leads_to_the_file_that_defines_it(void **state)
{
	static const struct {
		const char *symbol;
		const char *file; /* NULL: nowhere */
	} cases[] = {
		{"csi.v1.Identity", "csi_identity.proto"},
		{"csi.v1.Identity.Probe", "csi_identity.proto"},
		{"csi.v1.Identity.Nothing", NULL},
		{"csi.v1.SnapshotMetadata.GetMetadataDelta", "csi_metadata.proto"},
		{"snapshotmetadata.SnapshotMetadata", "snapshotmetadata.proto"},
		{"csi.v1.BlockMetadataType", "csi_metadata.proto"},
		{"SnapshotMetadata.GetDelta", "snapshot_session.proto"},
		{"BlockMetadataType", "snapshot_session.proto"},
		{"csi.v1.Controller.ListSnapshotDeltas", "csi_controller.proto"},
		{"csi.v1.DifferentialSnapshot", "csi_differential.proto"},
		{"cairn.v1.SnapshotData.GetBlock", "cairn_data.proto"},
		{"csi.v1.VolumeCapability.AccessMode.Mode", "csi_types.proto"},
		{"csi.v1.VolumeCapability.AccessMode", "csi_types.proto"},
		{"csi.v1.VolumeCapability.Mode", NULL},
		{"google.protobuf.BoolValue", "google/protobuf/wrappers.proto"},
		{"grpc.health.v1.Health", "grpc_health.proto"},
		{"grpc.reflection.v1.ServerReflection.ServerReflectionInfo",
		 "grpc_reflection.proto"},
		{"csi.v1", NULL},
		{"csi.v1.", NULL},
		{"csi.v1.Ident", NULL},
		{"csi.v1.IdentityX", NULL},
		{"cairn.test.Test", NULL},
		{"", NULL},
	};
	struct proto_bytes set = proto_descriptors_cairn();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct proto_bytes file;
		bool found = proto_file_by_symbol(&set, 1, cases[i].symbol, &file);

		if (found != (cases[i].file != NULL))
			fail_msg("%s: found is %d", cases[i].symbol, found);
		if (found && !file_is_called(file, cases[i].file))
			fail_msg("%s is not in %s", cases[i].symbol, cases[i].file);
	}
}

static void a_file_comes_with_what_it_imports(void **state)
{
	struct proto_bytes set = proto_descriptors_cairn();
	struct proto_bytes file, files[PROTO_FILES_MAX];
	size_t n;

	(void)state;
	assert_true(proto_file_by_name(&set, 1, "csi_controller.proto", &file));
	n = proto_file_closure(&set, 1, file, files);
	assert_int_equal(n, 5);
	assert_true(file_is_called(files[0], "csi_controller.proto"));
	assert_false(proto_file_by_name(&set, 1, "controller.proto", &file));
}

static void every_service_is_described(void **state)
{
	static const char *const names[] = {
		"cairn.v1.SnapshotData",
		"csi.v1.Controller",
		"csi.v1.GroupController",
		"csi.v1.Identity",
		"csi.v1.Node",
		"csi.v1.SnapshotMetadata",
		"grpc.health.v1.Health",
		"snapshotmetadata.SnapshotMetadata",
	};
	struct proto_bytes set = proto_descriptors_cairn(), file;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (!proto_file_by_symbol(&set, 1, names[i], &file))
			fail_msg("%s", names[i]);
}

static void broken_sets_hold_nothing_and_do_no_harm(void **state)
{
	struct proto_bytes whole = proto_descriptors_cairn();

	(void)state;
	for (size_t cut = 0; cut < whole.len; cut += 7) {
		struct proto_bytes part = {.data = whole.data, .len = cut};
		struct proto_bytes file;

		(void)proto_file_by_symbol(&part, 1, "no.such.Symbol", &file);
		assert_false(proto_file_by_name(&part, 1, "no_such.proto", &file));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_symbol_leads_to_the_file_that_defines_it),
		cmocka_unit_test(a_file_comes_with_what_it_imports),
		cmocka_unit_test(every_service_is_described),
		cmocka_unit_test(broken_sets_hold_nothing_and_do_no_harm),
	};

	return cmocka_run_group_tests_name("proto/descriptors", tests, NULL, NULL);
}
