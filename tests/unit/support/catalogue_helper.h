/* SPDX-License-Identifier: Apache-2.0 */

/* What the tests of the catalogue share: a directory for each test, and short
 * ways to put, get and count. */
#ifndef CAIRN_TESTS_UNIT_CATALOGUE_HELPER_H
#define CAIRN_TESTS_UNIT_CATALOGUE_HELPER_H

#include "cairntest.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/catalogue/catalogue.h"

#define catalogue_test(f) cmocka_unit_test_setup_teardown(f, helper_make_dir, helper_remove_dir)
#define auto_catalogue    cairn_cleanup(pool_catalogue_closep) struct catalogue
#define auto_batch        cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch

static char helper_dir[64];

static inline struct catalogue_bytes text(const char *s)
{
	return (struct catalogue_bytes){s, strlen(s)};
}

static const struct catalogue_bytes nothing = {NULL, 0};

static inline const char *in_dir(const char *name)
{
	static _Thread_local char path[128];

	snprintf(path, sizeof(path), "%s/%s", helper_dir, name);
	return path;
}

static int helper_make_dir(void **state)
{
	(void)state;
	scratch_template(helper_dir, "catalogue");
	return mkdtemp(helper_dir) ? 0 : -1;
}

static int helper_remove_dir(void **state)
{
	DIR *d = opendir(helper_dir);
	struct dirent *entry;

	(void)state;
	while (d && (entry = readdir(d)))
		unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	return rmdir(helper_dir);
}

static inline struct catalogue *open_again(bool writable)
{
	struct catalogue *cat = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_catalogue_open(helper_dir, writable, &cat, &err), &err);
	return cat;
}

static inline struct catalogue *create_and_open(void)
{
	struct cairn_err err = {0};

	assert_ok(pool_catalogue_create(helper_dir, &err), &err);
	return open_again(true);
}

static inline struct catalogue_batch *new_batch(struct catalogue *cat)
{
	struct catalogue_batch *batch = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_catalogue_batch_new(cat, &batch, &err), &err);
	return batch;
}

static inline void put_one(struct catalogue *cat, const char *key, const char *value,
			   enum catalogue_sync sync)
{
	auto_batch *batch = new_batch(cat);
	struct cairn_err err = {0};

	pool_catalogue_put(batch, text(key), text(value));
	assert_ok(pool_catalogue_commit(batch, sync, &err), &err);
}

/* `want` NULL: the key must not be there. */
static inline void assert_value(struct catalogue *cat, const char *key, const char *want)
{
	struct cairn_err err = {0};
	uint8_t *data = NULL;
	size_t len = 0;

	if (!want) {
		assert_code(pool_catalogue_get(cat, text(key), &data, &len, &err), CAIRN_NOT_FOUND);
		return;
	}
	assert_ok(pool_catalogue_get(cat, text(key), &data, &len, &err), &err);
	assert_int_equal(len, strlen(want));
	assert_string_equal((char *)data, want);
	free(data);
}

static inline int count_row(void *arg, struct catalogue_bytes key, struct catalogue_bytes value,
			    bool damaged, struct cairn_err *err)
{
	(void)key;
	(void)value;
	(void)damaged;
	(void)err;
	++*(size_t *)arg;
	return 0;
}

static inline size_t count_rows(struct catalogue *cat, const char *prefix)
{
	struct cairn_err err = {0};
	size_t n = 0;

	assert_ok(pool_catalogue_scan(cat, text(prefix), nothing, count_row, &n, &err), &err);
	return n;
}

static inline void count_line(void *arg, const char *line)
{
	(void)line;
	++*(size_t *)arg;
}

#endif
