/* SPDX-License-Identifier: Apache-2.0 */

/* What every unit test includes first: cmocka's mandatory headers and the
 * assertion that shows our error text. */
#ifndef CAIRN_TESTS_UNIT_CAIRNTEST_H
#define CAIRN_TESTS_UNIT_CAIRNTEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

#define assert_ok(expr, err)                                                                      \
	do {                                                                                      \
		int assert_ok_rc_ = (expr);                                                       \
		if (assert_ok_rc_ != 0)                                                           \
			fail_msg("%s: %s (%s)", #expr, (err)->msg, cairn_code_name((err)->code)); \
	} while (0)

#define assert_code(expr, want) assert_int_equal((expr), (want))

/* True with scripts/test --all: a test that tries some of many places tries more of them. */
static inline bool test_is_thorough(void)
{
	const char *thorough = getenv("CAIRN_TEST_THOROUGH");

	return thorough && strcmp(thorough, "1") == 0;
}

/* Where scratch files go: TMPDIR, which scripts/test puts into memory, else /tmp. */
static inline const char *scratch_parent(void)
{
	const char *parent = getenv("TMPDIR");

	return parent && *parent ? parent : "/tmp";
}

/* Fills `path`, an array, with a template for mkdtemp() and mkstemp(). */
#define scratch_template(path, name)                                                           \
	assert_in_range(                                                                       \
		snprintf(path, sizeof(path), "%s/cairn-%s-XXXXXX", scratch_parent(), name), 1, \
		sizeof(path) - 1)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
