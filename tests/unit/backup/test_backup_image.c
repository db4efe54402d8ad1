/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include "repofix.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backup/image.h"
#include "backup/zeros.h"
#include "repo/blob.h"

#define CHUNK 1000U

/* A tree of one file "f" of two chunks, which claims a size. */
static struct repo_id put_tree(struct repo *repo, uint64_t size)
{
	uint8_t bytes[CHUNK];
	char hex[REPO_ID_TEXT_MAX], json[512];
	struct cairn_err err = {0};
	struct repo_id id;

	repofix_bytes(1, bytes, sizeof(bytes));
	assert_ok(repo_blob_put(repo, REPO_BLOB_DATA, bytes, sizeof(bytes), &id, NULL, &err), &err);
	repo_id_format(&id, hex);
	snprintf(json, sizeof(json),
		 "{\"nodes\":[{\"name\":\"f\",\"type\":\"file\",\"size\":%" PRIu64
		 ",\"content\":[\"%s\",\"%s\"]}]}\n",
		 size, hex, hex);
	assert_ok(repo_blob_put(repo, REPO_BLOB_TREE, json, strlen(json), &id, NULL, &err), &err);
	assert_ok(repo_flush(repo, &err), &err);
	return id;
}

/* Whoever made it: too short a list would be restored as a shorter file. */
static void chunks_that_do_not_add_up_to_the_size_are_no_image(void **state)
{
	static const struct {
		uint64_t size;
		int code;
	} cases[] = {{2 * CHUNK, 0},
		     {2 * CHUNK + 1, CAIRN_DATA_LOSS},
		     {2 * CHUNK - 1, CAIRN_DATA_LOSS},
		     {0, CAIRN_DATA_LOSS}};
	cairn_cleanup(backup_zeros_freep) struct zeros *zeros = NULL;
	struct repofix *fix = *state;
	struct cairn_err err = {0};

	assert_ok(backup_zeros_new(&zeros, &err), &err);
	repofix_open(fix, REPO_LOCK_SHARED);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct repo_snapshot snapshot = {.tree = put_tree(fix->repo, cases[i].size)};
		struct image image = {0};

		assert_int_equal(backup_image_open(fix->repo, &snapshot, "/f", zeros, &image, &err),
				 cases[i].code);
		backup_image_done(&image);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(chunks_that_do_not_add_up_to_the_size_are_no_image,
						repofix_setup, repofix_teardown),
	};

	return cmocka_run_group_tests_name("backup/image", tests, NULL, NULL);
}
