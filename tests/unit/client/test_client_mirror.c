/* SPDX-License-Identifier: Apache-2.0 */

#include "client/mirror.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cairn/client.h>

#include "cairntest.h"
#include "pool/store/store.h"

#define SIZE (3U << 20)

struct pair {
	char source[64], target[64];
	struct client_mirror mirror;
};

static int file_of(char *path, unsigned char byte, size_t n)
{
	unsigned char *data = malloc(n + 1);
	int fd;

	assert_non_null(data);
	memset(data, byte, n);
	snprintf(path, 64, "%s/cairn-mirror-XXXXXX", scratch_parent());
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, n), (ssize_t)n);
	free(data);
	return fd;
}

static void make(struct pair *pair, size_t source_size, size_t target_size)
{
	close(file_of(pair->source, 's', source_size));
	close(file_of(pair->target, 't', target_size));
}

/* Two files of one size, with the mirror between them open. */
static void open_pair(struct pair *pair, size_t size)
{
	struct cairn_err err = {0};

	make(pair, size, size);
	assert_ok(client_mirror_open(&pair->mirror, pair->source, pair->target, &err), &err);
}

static void done(struct pair *pair)
{
	client_mirror_done(&pair->mirror);
	unlink(pair->source);
	unlink(pair->target);
}

static void what_is_copied_is_equal_and_the_rest_is_counted(void **state)
{
	static const struct cairn_block blocks[] = {
		{0, 4096}, {4096 + 100, 5}, {1 << 20, 1 << 20}, {SIZE - 10, 4096}};
	struct client_mirror_result result;
	struct cairn_err err = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, SIZE);
	assert_ok(client_mirror_copy(&pair.mirror, blocks, ARRAY_LEN(blocks), &err), &err);
	assert_int_equal(pair.mirror.copied_bytes, 4096 + 5 + (1 << 20) + 10);
	assert_ok(client_mirror_compare(&pair.mirror, NULL, &result, &err), &err);
	assert_int_equal(result.compared_bytes, SIZE);
	assert_int_equal(result.first, 4096);
	/* blocks of 4096 count whole */
	assert_int_equal(result.differing_bytes, SIZE - 4096 - (1 << 20));
	done(&pair);
}

static void a_whole_copy_leaves_no_difference(void **state)
{
	static const struct cairn_block all[] = {{0, SIZE + 5}};
	struct client_mirror_result result;
	struct cairn_err err = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, SIZE + 5);
	assert_ok(client_mirror_copy(&pair.mirror, all, 1, &err), &err);
	assert_ok(client_mirror_compare(&pair.mirror, NULL, &result, &err), &err);
	assert_int_equal(result.differing_bytes, 0);
	done(&pair);
}

static void what_can_not_be_right_is_refused(void **state)
{
	struct cairn_err err = {0};
	struct pair pair;

	(void)state;
	make(&pair, SIZE, SIZE + 1);
	assert_code(client_mirror_open(&pair.mirror, pair.source, pair.target, &err),
		    CAIRN_PRECONDITION);
	client_mirror_done(&pair.mirror);
	assert_code(client_mirror_open(&pair.mirror, pair.source, pair.source, &err),
		    CAIRN_INVALID);
	client_mirror_done(&pair.mirror);
	assert_code(client_mirror_open(&pair.mirror, "/dev/null", pair.target, &err),
		    CAIRN_INVALID);
	client_mirror_done(&pair.mirror);
	assert_code(client_mirror_open(&pair.mirror, "/nowhere/x", pair.target, &err),
		    CAIRN_NOT_FOUND);
	done(&pair);
}

static void a_block_behind_the_end_and_a_device_that_shrinks_are_errors(void **state)
{
	static const struct cairn_block behind[] = {{SIZE, 1}}, inside[] = {{SIZE - 10, 10}};
	struct cairn_err err = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, SIZE);
	assert_code(client_mirror_copy(&pair.mirror, behind, 1, &err), CAIRN_RANGE);
	assert_int_equal(truncate(pair.source, SIZE - 5), 0);
	assert_code(client_mirror_copy(&pair.mirror, inside, 1, &err), CAIRN_DATA_LOSS);
	done(&pair);
}

static void nothing(void *arg, uint64_t at, uint64_t total)
{
	(void)arg;
	assert_true(at <= total);
}

static bool at_once(void *arg)
{
	(void)arg;
	return true;
}

static void an_interrupt_ends_the_comparison(void **state)
{
	const struct store_progress progress = {.report = nothing, .cancelled = at_once};
	struct client_mirror_result result;
	struct cairn_err err = {0};
	struct pair pair;

	(void)state;
	open_pair(&pair, SIZE);
	assert_code(client_mirror_compare(&pair.mirror, &progress, &result, &err), CAIRN_CANCELLED);
	done(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_copied_is_equal_and_the_rest_is_counted),
		cmocka_unit_test(a_whole_copy_leaves_no_difference),
		cmocka_unit_test(what_can_not_be_right_is_refused),
		cmocka_unit_test(a_block_behind_the_end_and_a_device_that_shrinks_are_errors),
		cmocka_unit_test(an_interrupt_ends_the_comparison),
	};

	return cmocka_run_group_tests_name("client/mirror", tests, NULL, NULL);
}
