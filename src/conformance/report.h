/* SPDX-License-Identifier: Apache-2.0 */

/* Results: TAP on standard output as they come, JUnit XML at the end. */
#ifndef CAIRN_CONFORMANCE_REPORT_H
#define CAIRN_CONFORMANCE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct cairn_err;
struct suite_test;
struct target;
struct verdict;

struct report {
	bool junit;
	struct cairn_buf xml; /* the test cases so far */
	size_t passed, failed, skipped;
	uint64_t ns;
	int sys_errno; /* first failed write */
};

void conformance_report_init(struct report *r, bool junit);
void conformance_report_done(struct report *r);

/* Writes the lines before the first result; `n` tests will follow. */
void conformance_report_begin(struct report *r, const struct target *target, size_t n);
void conformance_report_result(struct report *r, const struct suite_test *test,
			       const struct verdict *v, uint64_t ns);

/* Writes a remark outside of the tests. */
void conformance_report_remark(struct report *r, const char *remark);

/* Reports that the remaining tests will not run. */
void conformance_report_bail_out(struct report *r, const char *why);

/* Writes the last line: "N passed, N failed, N skipped". */
void conformance_report_end(struct report *r);

/* Writes all results so far as XML.
 *
 * Codes are those of file system errors.
 */
int conformance_report_write_junit(const struct report *r, const char *path, struct cairn_err *err);

#endif
