/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <string.h>

#include "pool/device/mountinfo.h"

#define TEXT_MAX 512

static bool parse_one(const char *line, char text[TEXT_MAX], struct mountinfo_entry *ret)
{
	char *cursor = text;

	assert_true(strlen(line) < TEXT_MAX);
	memcpy(text, line, strlen(line) + 1);
	return pool_mountinfo_next(&cursor, ret);
}

static void a_line_gives_its_fields(void **state)
{
	struct mountinfo_entry entry;
	char text[TEXT_MAX];

	(void)state;
	assert_true(parse_one("36 35 98:12 /sub /mnt/data rw,noatime shared:1 master:2 - ext4 "
			      "/dev/loop7 rw,errors=continue\n",
			      text, &entry));
	assert_int_equal(entry.id, 36);
	assert_int_equal(entry.parent_id, 35);
	assert_int_equal(entry.major, 98);
	assert_int_equal(entry.minor, 12);
	assert_string_equal(entry.root, "/sub");
	assert_string_equal(entry.mount_point, "/mnt/data");
	assert_string_equal(entry.fs_type, "ext4");
	assert_string_equal(entry.source, "/dev/loop7");
	assert_false(entry.read_only);
}

static void the_mounts_own_options_say_whether_it_is_read_only(void **state)
{
	static const struct {
		const char *mount, *filesystem;
		bool read_only;
	} cases[] = {
		{"ro", "rw", true},     {"ro,noatime", "rw", true}, {"rw", "ro", false},
		{"rw,ro", "ro", false}, {"root", "ro", false},      {"noatime,ro", "ro", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mountinfo_entry entry;
		char text[TEXT_MAX];
		char line[TEXT_MAX];

		snprintf(line, sizeof(line), "1 2 3:4 / /a %s shared:1 - xfs /b %s\n",
			 cases[i].mount, cases[i].filesystem);
		assert_true(parse_one(line, text, &entry));
		assert_int_equal(entry.read_only, cases[i].read_only);
	}
}

static void a_filesystem_that_stopped_after_errors_is_known(void **state)
{
	static const struct {
		const char *mount, *filesystem;
		bool stopped;
	} cases[] = {
		{"rw", "rw,errors=remount-ro,emergency_ro", true},
		{"ro", "rw,emergency_ro,noquota", true},
		{"rw", "shutdown", true},
		{"rw,noatime", "ro,errors=remount-ro", true},
		{"ro", "ro", false},
		{"ro", "rw", false},
		{"rw", "rw", false},
		{"rw", "", false},
		{"rw", ",,", false},
		{"rw", "rw,no_shutdown,shutdown_not,emergency_ro2", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mountinfo_entry entry;
		char text[TEXT_MAX];
		char line[TEXT_MAX];

		snprintf(line, sizeof(line), "1 2 3:4 / /a %s - ext4 /b %s\n", cases[i].mount,
			 cases[i].filesystem);
		assert_true(parse_one(line, text, &entry));
		assert_int_equal(entry.stopped, cases[i].stopped);
	}
}

static void escapes_are_decoded_and_other_backslashes_kept(void **state)
{
	static const struct {
		const char *written, *meant;
	} cases[] = {
		{"/a\\040b", "/a b"},     {"/a\\011b", "/a\tb"},       {"/a\\012b", "/a\nb"},
		{"/a\\134b", "/a\\b"},    {"/a\\134040b", "/a\\040b"}, {"/a\\", "/a\\"},
		{"/a\\04", "/a\\04"},     {"/a\\048", "/a\\048"},      {"/a\\777", "/a\\777"},
		{"/a\\000b", "/a\\000b"}, {"/\\377", "/\xff"},         {"\\040", " "},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct mountinfo_entry entry;
		char text[TEXT_MAX];
		char line[TEXT_MAX];

		snprintf(line, sizeof(line), "1 2 3:4 / %s rw - xfs %s rw\n", cases[i].written,
			 cases[i].written);
		assert_true(parse_one(line, text, &entry));
		assert_string_equal(entry.mount_point, cases[i].meant);
		assert_string_equal(entry.source, cases[i].meant);
	}
}

static void a_source_may_be_empty(void **state)
{
	struct mountinfo_entry entry;
	char text[TEXT_MAX];

	(void)state;
	assert_true(parse_one("36 35 0:12 / /m rw - tmpfs  rw\n", text, &entry));
	assert_string_equal(entry.source, "");
	assert_string_equal(entry.fs_type, "tmpfs");
}

static void lines_of_another_form_are_passed_over(void **state)
{
	static const char *const lines[] = {
		"",
		"\n",
		"x",
		"36",
		"36 35",
		"36 35 98",
		"36 35 98:",
		"36 35 :0 / /m rw - ext4 /dev/a rw",
		"36 35 98:0",
		"36 35 98:0 /",
		"36 35 98:0 / /m",
		"36 35 98:0 / /m rw",
		"36 35 98:0 / /m rw shared:1",
		"36 35 98:0 / /m rw -",
		"36 35 98:0 / /m rw - ext4",
		"-36 35 98:0 / /m rw - ext4 /dev/a rw",
		"36 35 98:-1 / /m rw - ext4 /dev/a rw",
		"36 35 4294967296:0 / /m rw - ext4 /dev/a rw",
		"99999999999999999999 35 98:0 / /m rw - ext4 /dev/a rw",
		" 36 35 98:0 / /m rw - ext4 /dev/a rw",
		"36 35 98:0  /m rw - ext4 /dev/a rw",
		"36 35 98:0 / /m rw -  /dev/a rw",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct mountinfo_entry entry = {.id = 77};
		char text[TEXT_MAX];
		char both[TEXT_MAX];

		assert_false(parse_one(lines[i], text, &entry));
		assert_int_equal(entry.id, 77);
		snprintf(both, sizeof(both), "%s\n1 2 3:4 / /good rw - xfs s rw\n", lines[i]);
		assert_true(parse_one(both, text, &entry));
		assert_string_equal(entry.mount_point, "/good");
	}
}

static void every_line_of_a_table_is_seen_once(void **state)
{
	char text[] = "1 0 8:1 / / rw - ext4 /dev/a rw\n"
		      "2 1 8:2 / /b rw - ext4 /dev/b rw\n"
		      "broken\n"
		      "3 1 0:40 / /c rw - btrfs /dev/c rw"; /* no newline at the end */
	struct mountinfo_entry entry;
	char *cursor = text;

	(void)state;
	for (uint64_t id = 1; id <= 3; id++) {
		assert_true(pool_mountinfo_next(&cursor, &entry));
		assert_int_equal(entry.id, id);
	}
	assert_string_equal(entry.source, "/dev/c");
	assert_false(pool_mountinfo_next(&cursor, &entry));
	assert_false(pool_mountinfo_next(&cursor, &entry));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_gives_its_fields),
		cmocka_unit_test(the_mounts_own_options_say_whether_it_is_read_only),
		cmocka_unit_test(a_filesystem_that_stopped_after_errors_is_known),
		cmocka_unit_test(escapes_are_decoded_and_other_backslashes_kept),
		cmocka_unit_test(a_source_may_be_empty),
		cmocka_unit_test(lines_of_another_form_are_passed_over),
		cmocka_unit_test(every_line_of_a_table_is_seen_once),
	};

	return cmocka_run_group_tests_name("pool/mountinfo", tests, NULL, NULL);
}
