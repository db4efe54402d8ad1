/* SPDX-License-Identifier: Apache-2.0 */

#include "catalogue_helper.h"

static void what_was_committed_is_there_after_reopening(void **state)
{
	struct catalogue *cat = create_and_open();

	(void)state;
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	put_one(cat, "b", "", CATALOGUE_ORDERED);
	assert_value(cat, "a", "1");
	assert_value(cat, "c", NULL);
	pool_catalogue_close(cat);
	cat = open_again(false);
	assert_value(cat, "a", "1");
	assert_value(cat, "b", "");
	pool_catalogue_close(cat);
}

static void a_second_create_is_refused_and_harms_nothing(void **state)
{
	auto_catalogue *cat = create_and_open();
	struct cairn_err err = {0};

	(void)state;
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	assert_code(pool_catalogue_create(helper_dir, &err), CAIRN_EXISTS);
	assert_value(cat, "a", "1");
}

static void an_interrupted_create_does_not_stop_the_next(void **state)
{
	FILE *f = fopen(in_dir("catalogue.db.tmp"), "w");

	(void)state;
	assert_non_null(f);
	fputs("half", f);
	fclose(f);
	pool_catalogue_close(create_and_open());
	assert_int_equal(access(in_dir("catalogue.db.tmp"), F_OK), -1);
}

static void files_are_for_their_owner_alone(void **state)
{
	static const char *const names[] = {"catalogue.db", "catalogue.db-wal", "catalogue.db-shm",
					    "catalogue.db-trust"};
	auto_catalogue *cat = create_and_open();
	struct stat st;

	(void)state;
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		assert_int_equal(stat(in_dir(names[i]), &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
}

static void a_batch_puts_and_deletes_together_in_order(void **state)
{
	auto_catalogue *cat = create_and_open();
	auto_batch *batch = NULL;
	struct cairn_err err = {0};

	(void)state;
	put_one(cat, "old", "1", CATALOGUE_ORDERED);
	batch = new_batch(cat);
	pool_catalogue_put(batch, text("new"), text("1"));
	pool_catalogue_put(batch, text("new"), text("2"));
	pool_catalogue_delete(batch, text("old"));
	pool_catalogue_delete(batch, text("never was"));
	assert_value(cat, "old", "1");
	assert_value(cat, "new", NULL);
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), &err);
	assert_value(cat, "old", NULL);
	assert_value(cat, "new", "2");
}

static void a_batch_that_is_not_committed_changes_nothing(void **state)
{
	auto_catalogue *cat = create_and_open();

	(void)state;
	for (int i = 0; i < 3; i++) {
		auto_batch *batch = new_batch(cat);

		pool_catalogue_put(batch, text("a"), text("1"));
	}
	assert_int_equal(count_rows(cat, ""), 0);
}

static void an_expectation_that_fails_changes_nothing(void **state)
{
	static const struct {
		const char *key, *value; /* value NULL: expected to be absent */
		int code;
	} cases[] = {
		{"a", "1", 0},
		{"a", "2", CAIRN_ABORTED},
		{"a", "", CAIRN_ABORTED},
		{"a", NULL, CAIRN_ABORTED},
		{"b", NULL, 0},
		{"b", "", CAIRN_ABORTED},
		{"e", "", 0},
		{"e", NULL, CAIRN_ABORTED},
		{"a", "11", CAIRN_ABORTED},
	};
	auto_catalogue *cat = create_and_open();

	(void)state;
	put_one(cat, "a", "1", CATALOGUE_ORDERED);
	put_one(cat, "e", "", CATALOGUE_ORDERED);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_batch *batch = new_batch(cat);
		struct cairn_err err = {0};

		pool_catalogue_put(batch, text("w"), text("x"));
		pool_catalogue_expect(batch, text(cases[i].key),
				      cases[i].value ? text(cases[i].value) : nothing);
		assert_code(pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err), cases[i].code);
		assert_value(cat, "w", cases[i].code == 0 ? "x" : NULL);
		pool_catalogue_batch_free(batch);
		batch = new_batch(cat);
		pool_catalogue_delete(batch, text("w"));
		assert_ok(pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err), &err);
	}
}

static void expectations_speak_of_the_state_before_the_batch(void **state)
{
	auto_catalogue *cat = create_and_open();
	auto_batch *batch = new_batch(cat);
	struct cairn_err err = {0};

	(void)state;
	pool_catalogue_put(batch, text("a"), text("1"));
	pool_catalogue_expect(batch, text("a"), nothing);
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err), &err);
	assert_code(pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err), CAIRN_ABORTED);
	assert_value(cat, "a", "1");
}

static void what_is_too_large_is_refused_and_sticks(void **state)
{
	static const uint8_t zeros[CATALOGUE_VALUE_MAX + 1];
	static const struct {
		size_t key_len, value_len;
		int code;
	} cases[] = {
		{0, 1, CAIRN_INVALID},
		{CATALOGUE_KEY_MAX, CATALOGUE_VALUE_MAX, 0},
		{CATALOGUE_KEY_MAX + 1, 1, CAIRN_INVALID},
		{1, CATALOGUE_VALUE_MAX + 1, CAIRN_INVALID},
	};
	auto_catalogue *cat = create_and_open();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_batch *batch = new_batch(cat);
		struct cairn_err err = {0};

		pool_catalogue_put(batch, (struct catalogue_bytes){zeros, cases[i].key_len},
				   (struct catalogue_bytes){zeros, cases[i].value_len});
		pool_catalogue_put(batch, text("good"), text("1"));
		assert_code(pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err), cases[i].code);
		assert_int_equal(err.code, cases[i].code);
		assert_int_equal(count_rows(cat, "good"), cases[i].code == 0 || i > 1);
	}
}

static void a_reader_cannot_commit(void **state)
{
	auto_catalogue *cat = create_and_open();
	auto_catalogue *reader = open_again(false);
	auto_batch *batch = new_batch(reader);
	struct cairn_err err = {0};

	(void)state;
	pool_catalogue_put(batch, text("a"), text("1"));
	assert_code(pool_catalogue_commit(batch, CATALOGUE_DURABLE, &err), CAIRN_PRECONDITION);
	assert_value(cat, "a", NULL);
	put_one(cat, "a", "2", CATALOGUE_ORDERED);
	assert_value(reader, "a", "2");
}

/* Collects keys as text, with a comma behind each; ends at key `stop`. */
struct collect {
	char keys[256];
	const char *stop;
	int stop_code;
};

static int collect(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
		   bool damaged, struct cairn_err *err)
{
	struct collect *c = arg;
	size_t used = strlen(c->keys);

	(void)value;
	(void)err;
	assert_false(damaged);
	snprintf(c->keys + used, sizeof(c->keys) - used, "%.*s,", (int)key.len,
		 (const char *)key.data);
	return c->stop && strcmp(c->stop, c->keys + used) == 0 ? c->stop_code : 0;
}

static void a_scan_gives_keys_in_byte_order_after_a_key_within_a_prefix(void **state)
{
	static const char *const keys[] = {"b",         "a/2",  "a/1",  "a",
					   "a\xff\xff", "a/10", "\xff", "B"};
	static const struct {
		const char *prefix, *after, *want;
	} cases[] = {
		{"", "", "B,a,a/1,a/10,a/2,a\xff\xff,b,\xff,"},
		{"a", "", "a,a/1,a/10,a/2,a\xff\xff,"},
		{"a/", "", "a/1,a/10,a/2,"},
		{"a/", "a/1", "a/10,a/2,"},
		{"a/", "a/3", ""},
		{"a/", "a", "a/1,a/10,a/2,"},
		{"a/", "B", "a/1,a/10,a/2,"},
		{"a/", "b", ""},
		{"a/1", "a/", "a/1,a/10,"},
		{"a/1", "a/1", "a/10,"},
		{"a\xff", "", "a\xff\xff,"},
		{"\xff", "", "\xff,"},
		{"\xff", "\xff", ""},
		{"", "a/2", "a\xff\xff,b,\xff,"},
		{"c", "", ""},
	};
	auto_catalogue *cat = create_and_open();

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		put_one(cat, keys[i], keys[i], CATALOGUE_ORDERED);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct collect c = {""};
		struct cairn_err err = {0};

		assert_ok(pool_catalogue_scan(cat, text(cases[i].prefix), text(cases[i].after),
					      collect, &c, &err),
			  &err);
		assert_string_equal(c.keys, cases[i].want);
	}
}

static void a_scan_ends_when_the_callback_says_so(void **state)
{
	auto_catalogue *cat = create_and_open();
	struct collect c = {"", "2,", 1};
	struct cairn_err err = {0};

	(void)state;
	put_one(cat, "1", "", CATALOGUE_ORDERED);
	put_one(cat, "2", "", CATALOGUE_ORDERED);
	put_one(cat, "3", "", CATALOGUE_ORDERED);
	assert_ok(pool_catalogue_scan(cat, nothing, nothing, collect, &c, &err), &err);
	assert_string_equal(c.keys, "1,2,");
	c = (struct collect){"", "1,", CAIRN_CANCELLED};
	assert_code(pool_catalogue_scan(cat, nothing, nothing, collect, &c, &err), CAIRN_CANCELLED);
	assert_string_equal(c.keys, "1,");
}

#define MANY      3000
#define LONG_LINE 400 /* many times this is more than a scan holds in memory */

static void fill_many(struct catalogue *cat, char mark)
{
	auto_batch *batch = new_batch(cat);
	struct cairn_err err = {0};
	char key[16], value[LONG_LINE + 1];

	memset(value, mark, LONG_LINE);
	value[LONG_LINE] = '\0';
	for (int i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "k%06d", i);
		pool_catalogue_put(batch, text(key), text(value));
	}
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err), &err);
}

struct nested {
	struct catalogue *cat;
	size_t rows, nested_rows;
};

static int use_catalogue(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
			 bool damaged, struct cairn_err *err)
{
	struct nested *nested = arg;

	(void)key;
	(void)err;
	assert_false(damaged);
	assert_int_equal(value.len, LONG_LINE);
	assert_int_equal(*(const char *)value.data, 'a');
	if (nested->rows++ % 1000 == 0) {
		fill_many(nested->cat, (char)('b' + nested->rows / 1000));
		put_one(nested->cat, "z", "new", CATALOGUE_DURABLE);
		assert_value(nested->cat, "z", "new");
		nested->nested_rows = count_rows(nested->cat, "");
	}
	return 0;
}

static void a_long_scan_is_of_one_moment_while_its_callback_writes(void **state)
{
	auto_catalogue *cat = create_and_open();
	struct nested nested = {.cat = cat};
	struct cairn_err err = {0};

	(void)state;
	fill_many(cat, 'a');
	assert_ok(pool_catalogue_scan(cat, nothing, nothing, use_catalogue, &nested, &err), &err);
	assert_int_equal(nested.rows, MANY);
	assert_int_equal(nested.nested_rows, MANY + 1);
}

static void the_log_stays_short(void **state)
{
	auto_catalogue *cat = create_and_open();
	struct stat st;
	char value[32];

	(void)state;
	for (int i = 0; i < 3000; i++) {
		snprintf(value, sizeof(value), "%d", i);
		put_one(cat, "counter", value, CATALOGUE_ORDERED);
		assert_value(cat, "counter", value);
	}
	assert_int_equal(stat(in_dir("catalogue.db-wal"), &st), 0);
	assert_in_range(st.st_size, 1, 2 << 20);
}

static void the_log_stays_short_also_when_each_process_commits_once(void **state)
{
	struct stat st;
	char value[32];

	(void)state;
	pool_catalogue_close(create_and_open());
	for (int i = 0; i < 600; i++) {
		auto_catalogue *cat = open_again(true);

		snprintf(value, sizeof(value), "%d", i);
		put_one(cat, "counter", value, CATALOGUE_ORDERED);
		assert_value(cat, "counter", value);
	}
	assert_int_equal(stat(in_dir("catalogue.db-wal"), &st), 0);
	assert_in_range(st.st_size, 1, 1 << 20);
}

static void a_check_of_a_sound_catalogue_finds_nothing(void **state)
{
	auto_catalogue *cat = create_and_open();
	struct cairn_err err = {0};
	size_t faults = 0;

	(void)state;
	fill_many(cat, 'a');
	assert_ok(pool_catalogue_check(cat, count_line, &faults, &err), &err);
	assert_int_equal(faults, 0);
}

static void a_directory_with_odd_characters_works(void **state)
{
	char odd[128], file[256];
	static const char *const names[] = {"catalogue.db", "catalogue.db-wal", "catalogue.db-shm",
					    "catalogue.db-trust"};
	struct cairn_err err = {0};
	struct catalogue *cat = NULL;

	(void)state;
	snprintf(odd, sizeof(odd), "%s/file:a?b#c%%20 d", helper_dir);
	assert_int_equal(mkdir(odd, 0700), 0);
	assert_ok(pool_catalogue_create(odd, &err), &err);
	assert_ok(pool_catalogue_open(odd, true, &cat, &err), &err);
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	assert_value(cat, "a", "1");
	pool_catalogue_close(cat);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(file, sizeof(file), "%s/%s", odd, names[i]);
		unlink(file);
	}
	assert_int_equal(rmdir(odd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		catalogue_test(what_was_committed_is_there_after_reopening),
		catalogue_test(a_second_create_is_refused_and_harms_nothing),
		catalogue_test(an_interrupted_create_does_not_stop_the_next),
		catalogue_test(files_are_for_their_owner_alone),
		catalogue_test(a_batch_puts_and_deletes_together_in_order),
		catalogue_test(a_batch_that_is_not_committed_changes_nothing),
		catalogue_test(an_expectation_that_fails_changes_nothing),
		catalogue_test(expectations_speak_of_the_state_before_the_batch),
		catalogue_test(what_is_too_large_is_refused_and_sticks),
		catalogue_test(a_reader_cannot_commit),
		catalogue_test(a_scan_gives_keys_in_byte_order_after_a_key_within_a_prefix),
		catalogue_test(a_scan_ends_when_the_callback_says_so),
		catalogue_test(a_long_scan_is_of_one_moment_while_its_callback_writes),
		catalogue_test(the_log_stays_short),
		catalogue_test(the_log_stays_short_also_when_each_process_commits_once),
		catalogue_test(a_check_of_a_sound_catalogue_finds_nothing),
		catalogue_test(a_directory_with_odd_characters_works),
	};

	return cmocka_run_group_tests_name("pool/catalogue", tests, NULL, NULL);
}
