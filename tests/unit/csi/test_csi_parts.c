/* SPDX-License-Identifier: Apache-2.0 */

/* The parts of the CSI services that decide without a pool. */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>

#include "csi/capability.h"
#include "csi/page.h"
#include "csi/parameters.h"
#include "csi/size.h"

static void sizes_follow_the_capacity_range(void **state)
{
	static const struct {
		int64_t required, limit;
		uint64_t floor;
		int code;
		uint64_t size;
	} cases[] = {
		{0, 0, 0, 0, CSI_SIZE_DEFAULT},
		{1 << 20, 0, 0, 0, 1 << 20},
		{1000, 0, 0, 0, 1024},           /* whole sectors */
		{1000, 1000, 0, CAIRN_RANGE, 0}, /* which do not fit */
		{0, 1 << 20, 0, 0, 1 << 20},
		{0, 0, 4096, 0, 4096}, /* the source's */
		{1 << 20, 0, 4096, 0, 1 << 20},
		{4096, 0, 1 << 20, CAIRN_RANGE, 0}, /* below the source's */
		{-1, 0, 0, CAIRN_RANGE, 0},
		{2048, 1024, 0, CAIRN_RANGE, 0},
		{INT64_MAX, 0, 0, CAIRN_RANGE, 0},
		{0, 100, 0, CAIRN_RANGE, 0}, /* not one sector */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		Csi__V1__CapacityRange wanted;
		struct csi_size_range range;
		struct cairn_err err = {0};
		uint64_t size = 0;
		int rc;

		csi__v1__capacity_range__init(&wanted);
		wanted.required_bytes = cases[i].required;
		wanted.limit_bytes = cases[i].limit;
		rc = csi_size_range(&wanted, &range, &err);
		if (!rc)
			rc = csi_size_choose(&range, cases[i].floor, &size, &err);
		assert_int_equal(rc, cases[i].code);
		if (!rc)
			assert_int_equal(size, cases[i].size);
	}
}

static void capabilities_that_are_not_offered_are_refused(void **state)
{
	static const struct {
		int access; /* 0 none, 1 block, 2 mount */
		int mode;
		const char *fs;
		int code;
	} cases[] = {
		{1, 1, "", 0},
		{2, 1, "", 0},
		{2, 1, "xfs", 0},
		{2, 6, "btrfs", 0},
		{2, 7, "ext4", 0},
		{1, 2, "", 0},
		{0, 1, "", CAIRN_INVALID},
		{1, 0, "", CAIRN_INVALID},
		{1, 3, "", CAIRN_INVALID},
		{1, 4, "", CAIRN_INVALID},
		{1, 5, "", CAIRN_INVALID},
		{1, 8, "", CAIRN_INVALID},
		{1, 77, "", CAIRN_INVALID},
		{1, -1, "", CAIRN_INVALID},
		{2, 1, "EXT4", CAIRN_INVALID},
		{2, 1, "ntfs", CAIRN_INVALID},
	};

	(void)state;
	assert_code(csi_capability_check(NULL, NULL), CAIRN_INVALID);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		Csi__V1__VolumeCapability capability;
		Csi__V1__VolumeCapability__BlockVolume block;
		Csi__V1__VolumeCapability__MountVolume mount;
		Csi__V1__VolumeCapability__AccessMode mode;
		char fs[16];

		csi__v1__volume_capability__init(&capability);
		csi__v1__volume_capability__block_volume__init(&block);
		csi__v1__volume_capability__mount_volume__init(&mount);
		csi__v1__volume_capability__access_mode__init(&mode);
		snprintf(fs, sizeof(fs), "%s", cases[i].fs);
		mount.fs_type = fs;
		mode.mode = (Csi__V1__VolumeCapability__AccessMode__Mode)cases[i].mode;
		capability.access_mode = &mode;
		if (cases[i].access == 1) {
			capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
			capability.block = &block;
		} else if (cases[i].access == 2) {
			capability.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
			capability.mount = &mount;
		}
		assert_code(csi_capability_check(&capability, NULL), cases[i].code);
	}
}

static void parameters_are_known_or_refused(void **state)
{
	const struct csi_entry good[] = {{"csi.storage.k8s.io/pvc/name", "x"}, {"pool", "fast"}};
	const struct csi_entry other[] = {{"colour", "red"}};
	const struct csi_entry settings[] = {{"granularity", "64K"}, {"retention", "7d"}};
	const struct csi_entry bad[] = {{"retention", "soon"},   {"retention", "-1s"},
					{"granularity", "3"},    {"granularity", "12K"},
					{"granularity", "1"},    {"granularity", "16E"},
					{"granularity", "none"}, {"Retention", "1d"}};
	const struct csi_entry none[] = {{"granularity", "0"}};
	struct pool_volume_settings parsed;
	const char *pool;

	(void)state;
	assert_code(csi_parameters_parse(good, 2, &pool, NULL), 0);
	assert_string_equal(pool, "fast");
	assert_code(csi_parameters_parse(other, 1, &pool, NULL), CAIRN_INVALID);
	assert_code(csi_mutable_parse(settings, 2, &parsed, NULL), 0);
	assert_int_equal(parsed.granularity, 65536);
	assert_int_equal(parsed.retention_ms, 7ULL * 24 * 3600 * 1000);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_code(csi_mutable_parse(&bad[i], 1, &parsed, NULL), CAIRN_INVALID);
	assert_code(csi_mutable_parse(none, 1, &parsed, NULL), 0);
	assert_code(csi_mutable_parse(other, 1, &parsed, NULL), CAIRN_INVALID);
	/* The sidecars' own keys do not make two requests different. */
	assert_int_equal(csi_entries_checksum(good, 2), csi_entries_checksum(good + 1, 1));
	assert_int_not_equal(csi_entries_checksum(good, 2), csi_entries_checksum(other, 1));
}

/* Lists `n` ids of two pools in pages of `max` and collects what comes out. */
static void list_in_pages(int32_t max, char *out, size_t size)
{
	static const char *const ids[2][3] = {
		{"vol-0000000000000001", "vol-0000000000000002", NULL},
		{"vol-0000000000000003", "vol-0000000000000004", NULL},
	};
	char token[CSI_PAGE_TOKEN_MAX] = "";
	size_t len = 0;

	out[0] = '\0';
	do {
		struct csi_page page;

		assert_code(csi_page_begin(&page, CSI_PAGE_VOLUMES, max, token, 2, NULL), 0);
		while (csi_page_next_pool(&page)) {
			for (const char *const *id = ids[page.pool]; *id; id++) {
				if (page.after[0] && strcmp(*id, page.after) <= 0)
					continue;
				if (csi_page_is_full(&page))
					break;
				csi_page_add(&page, *id);
				len += (size_t)snprintf(out + len, size - len, "%c", (*id)[19]);
			}
		}
		snprintf(token, sizeof(token), "%s", page.next_token);
	} while (token[0]);
}

static void pages_go_over_all_pools_without_gap_or_repeat(void **state)
{
	char seen[16];

	(void)state;
	for (int32_t max = 0; max <= 5; max++) {
		list_in_pages(max, seen, sizeof(seen));
		assert_string_equal(seen, "1234");
	}
}

static void foreign_tokens_are_aborted(void **state)
{
	static const char *const tokens[] = {
		"invalid-token",          ":",       "0:",
		"9:vol-0000000000000001", "0:vol-1", "-1:vol-0000000000000001"};
	struct csi_page page;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tokens); i++)
		assert_code(csi_page_begin(&page, CSI_PAGE_VOLUMES, 0, tokens[i], 2, NULL),
			    CAIRN_ABORTED);
	assert_code(csi_page_begin(&page, CSI_PAGE_VOLUMES, -1, "", 2, NULL), CAIRN_INVALID);
	/* Each listing has tokens of its own. */
	assert_code(csi_page_begin(&page, CSI_PAGE_VOLUMES, 0, "1:vol-0000000000000001", 2, NULL),
		    0);
	assert_code(csi_page_begin(&page, CSI_PAGE_SNAPSHOTS, 0, "1:vol-0000000000000001", 2, NULL),
		    CAIRN_ABORTED);
	assert_code(
		csi_page_begin(&page, CSI_PAGE_SNAPSHOTS, 0, "1:snap-0000000000000001-7", 2, NULL),
		0);
	assert_code(
		csi_page_begin(&page, CSI_PAGE_VOLUMES, 0, "1:snap-0000000000000001-7", 2, NULL),
		CAIRN_ABORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_follow_the_capacity_range),
		cmocka_unit_test(capabilities_that_are_not_offered_are_refused),
		cmocka_unit_test(parameters_are_known_or_refused),
		cmocka_unit_test(pages_go_over_all_pools_without_gap_or_repeat),
		cmocka_unit_test(foreign_tokens_are_aborted),
	};

	return cmocka_run_group_tests_name("csi/parts", tests, NULL, NULL);
}
