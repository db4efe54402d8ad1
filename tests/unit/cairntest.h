/* SPDX-License-Identifier: Apache-2.0 */

/* What every unit test includes first: cmocka's mandatory headers and the
 * assertion that shows our error text. */
#ifndef CAIRN_TESTS_UNIT_CAIRNTEST_H
#define CAIRN_TESTS_UNIT_CAIRNTEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"

#define assert_ok(expr, err)                                                                      \
	do {                                                                                      \
		int assert_ok_rc_ = (expr);                                                       \
		if (assert_ok_rc_ != 0)                                                           \
			fail_msg("%s: %s (%s)", #expr, (err)->msg, cairn_code_name((err)->code)); \
	} while (0)

#define assert_code(expr, want) assert_int_equal((expr), (want))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
