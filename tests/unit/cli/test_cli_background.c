/* SPDX-License-Identifier: Apache-2.0 */

/* What the caller of a background process hears of its end. The pool is a stand-in. */

#include "cairntest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "cli/background.h"
#include "cli/options.h"
#include "cli/pool_open.h"
#include "cli/progress.h"
#include "pool/pool.h"

#define WAIT_MS 600000U

struct cmd_options cmd_options;

static int (*complete_as)(struct cairn_err *err);

const char *cmd_pool_dir(void)
{
	return "/";
}

int cmd_pool_open(enum cmd_access access, struct pool **ret, struct cairn_err *err)
{
	(void)access;
	(void)err;
	*ret = NULL;
	return 0;
}

int pool_address_absolute(const char *dir, char *ret, size_t n, struct cairn_err *err)
{
	(void)err;
	snprintf(ret, n, "%s", dir);
	return 0;
}

void pool_close(struct pool *pool)
{
	(void)pool;
}

void pool_hold_release(struct pool_hold *hold)
{
	(void)hold;
}

int cmd_interrupted(void)
{
	return 0;
}

int pool_snapshot_complete(struct pool *pool, const char *snapshot,
			   const struct store_progress *progress, struct cairn_err *err)
{
	(void)pool;
	(void)snapshot;
	(void)progress;
	return complete_as(err);
}

static int succeed(struct cairn_err *err)
{
	(void)err;
	return 0;
}

static int refuse(struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_NO_SPACE, "the disk is full");
}

static int be_killed(struct cairn_err *err)
{
	(void)err;
	raise(SIGKILL);
	return 0;
}

static enum cmd_sets make(int (*as)(struct cairn_err *err), struct cairn_err *err)
{
	struct pool_hold hold = {-1, -1};
	struct pool_snapshot snapshot = {.id = "snap"};

	complete_as = as;
	return cmd_sets_make(&snapshot, 1, WAIT_MS, &hold, err);
}

static void only_a_process_that_says_so_is_done(void **state)
{
	struct cairn_err err = {0};

	(void)state;
	assert_int_equal(make(succeed, &err), CMD_SETS_DONE);
	assert_int_equal(make(refuse, &err), CMD_SETS_FAILED);
	assert_int_equal(err.code, CAIRN_NO_SPACE);
	assert_int_equal(make(be_killed, &err), CMD_SETS_FAILED);
	assert_int_equal(err.code, CAIRN_INTERNAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_a_process_that_says_so_is_done),
	};

	return cmocka_run_group_tests_name("cli/background", tests, NULL, NULL);
}
