/* SPDX-License-Identifier: Apache-2.0 */

/* Runs a function again and again, with each of its allocations failing once. */
#ifndef CAIRN_TESTS_UNIT_FAILING_MEMORY_H
#define CAIRN_TESTS_UNIT_FAILING_MEMORY_H

#include "base/mem.h"
#include "cairntest.h"

/* `run` releases all that it made. Asserts that each failure is reported as CAIRN_NO_SPACE, and
 * that `run` succeeds in the end; returns the number of allocations. */
static inline size_t assert_allocations_may_fail(int (*run)(struct cairn_err *err))
{
	for (size_t nth = 1;; nth++) {
		struct cairn_err err = {0};
		size_t asked;
		int rc;

		cairn_mem_fail_at(nth, 0);
		rc = run(&err);
		asked = cairn_mem_count();
		cairn_mem_fail_at(0, 0);
		if (asked < nth) {
			assert_ok(rc, &err);
			return asked;
		}
		assert_int_equal(rc, CAIRN_NO_SPACE);
		assert_int_equal(err.code, CAIRN_NO_SPACE);
	}
}

#endif
