/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "pool/catalogue.h"

static char dir[64];

static struct catalogue_bytes text(const char *s)
{
	return (struct catalogue_bytes){s, strlen(s)};
}

static int make_dir(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/cairn-catalogue-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	static const char *const names[] = {"catalogue.db", "catalogue.db-wal", "catalogue.db-shm"};
	char path[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	return rmdir(dir);
}

static struct catalogue *create_and_open(void)
{
	struct catalogue *cat = NULL;
	struct cairn_err err = {0};

	assert_ok(catalogue_create(dir, &err), &err);
	assert_ok(catalogue_open(dir, true, &cat, &err), &err);
	return cat;
}

static void put_one(struct catalogue *cat, const char *key, const char *value,
		    enum catalogue_sync sync)
{
	struct catalogue_batch *batch = NULL;
	struct cairn_err err = {0};

	assert_ok(catalogue_batch_new(cat, &batch, &err), &err);
	catalogue_put(batch, text(key), text(value));
	assert_ok(catalogue_commit(batch, sync, &err), &err);
	catalogue_batch_free(batch);
}

static void assert_value(struct catalogue *cat, const char *key, const char *want)
{
	struct cairn_err err = {0};
	uint8_t *data = NULL;
	size_t len = 0;

	if (!want) {
		assert_code(catalogue_get(cat, text(key), &data, &len, &err), CAIRN_NOT_FOUND);
		return;
	}
	assert_ok(catalogue_get(cat, text(key), &data, &len, &err), &err);
	assert_int_equal(len, strlen(want));
	assert_string_equal((char *)data, want);
	free(data);
}

static void what_was_committed_is_there_after_reopening(void **state)
{
	struct catalogue *cat = create_and_open();
	struct cairn_err err = {0};

	(void)state;
	put_one(cat, "a", "1", CATALOGUE_DURABLE);
	put_one(cat, "b", "", CATALOGUE_ORDERED);
	assert_value(cat, "a", "1");
	assert_value(cat, "c", NULL);
	catalogue_close(cat);
	assert_ok(catalogue_open(dir, false, &cat, &err), &err);
	assert_value(cat, "a", "1");
	assert_value(cat, "b", "");
	catalogue_close(cat);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_committed_is_there_after_reopening,
						make_dir, remove_dir),
	};

	return cmocka_run_group_tests_name("pool/catalogue", tests, NULL, NULL);
}
