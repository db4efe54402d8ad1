/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "poolfix.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static int setup(void **state, uint64_t retention_ms)
{
	struct poolfix *fix = calloc(1, sizeof(*fix));
	struct pool_create_spec spec = {
		.dir = fix->dir, .backend = POOL_BACKEND_COPY, .retention_ms = retention_ms};
	struct pool_create_result result;
	struct cairn_err err = {0};

	scratch_template(fix->dir, "unit");
	if (!mkdtemp(fix->dir))
		return -1;
	if (pool_create(&spec, &result, &err) != 0) {
		print_error("%s\n", err.msg);
		return -1;
	}
	*state = fix;
	poolfix_reopen(fix);
	return 0;
}

int poolfix_setup(void **state)
{
	return setup(state, 0);
}

int poolfix_setup_impatient(void **state)
{
	return setup(state, 1);
}

void poolfix_reopen(struct poolfix *fix)
{
	struct pool_open_spec spec = {.dir = fix->dir};
	struct cairn_err err = {0};

	pool_closep(&fix->pool);
	fix->pool = NULL;
	assert_ok(pool_open(&spec, &fix->pool, &err), &err);
}

int poolfix_teardown(void **state)
{
	struct poolfix *fix = *state;
	struct cairn_err err = {0};
	int rc;

	pool_closep(&fix->pool);
	rc = pool_destroy(fix->dir, &err);
	if (rc)
		print_error("destroy: %s\n", err.msg);
	rmdir(fix->dir);
	free(fix);
	return rc;
}

void poolfix_write(struct poolfix *fix, const char *volume, uint64_t block, int byte)
{
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;
	struct cairn_err err = {0};
	char data[BLK];

	assert_ok(pool_volume_path(fix->pool, volume, &path, &err), &err);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	memset(data, byte, sizeof(data));
	assert_int_equal(pwrite(fd, data, sizeof(data), (off_t)(block * BLK)), sizeof(data));
}

void poolfix_snapshot(struct poolfix *fix, const char *volume, const char *name)
{
	struct pool_snapshot_spec spec = {.volume = volume, .name = name};
	struct pool_snapshot snapshot;
	struct cairn_err err = {0};

	assert_ok(pool_snapshot_create(fix->pool, &spec, 1, &snapshot, &err), &err);
}

const char *poolfix_delta(struct poolfix *fix, const char *base, const char *target)
{
	static char text[4096];
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
	struct pool_delta_spec spec = {.base = base, .target = target};
	struct cairn_err err = {0};
	struct block_extent extents[3]; /* small, so that paging is used too */
	size_t len = 0;
	size_t n;
	int rc = pool_delta_open(fix->pool, &spec, &delta, &err);

	text[0] = '\0';
	do {
		if (!rc)
			rc = pool_delta_next(delta, extents, ARRAY_LEN(extents), &n, &err);
		if (rc)
			return cairn_code_name(rc);
		for (size_t i = 0; i < n; i++) {
			uint64_t first = extents[i].offset / BLK;
			uint64_t last = (block_extent_end(&extents[i]) - 1) / BLK;

			len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%" PRIu64,
						len ? " " : "", first);
			if (last != first)
				len += (size_t)snprintf(text + len, sizeof(text) - len, "-%" PRIu64,
							last);
			if (extents[i].zero)
				len += (size_t)snprintf(text + len, sizeof(text) - len, "z");
		}
	} while (n > 0);
	return text;
}

static void print_fault(void *arg, enum pool_fault_state state, const char *line)
{
	(void)arg;
	print_error("fault %d: %s\n", state, line);
}

void poolfix_check_clean(struct poolfix *fix)
{
	struct pool_check_spec spec = {.fault = print_fault};
	struct pool_check_result result;
	struct cairn_err err = {0};

	assert_ok(pool_check(fix->pool, &spec, &result, &err), &err);
	assert_int_equal(result.found, 0);
}
