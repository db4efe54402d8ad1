/* SPDX-License-Identifier: Apache-2.0 */

/* The result of one test. */
#ifndef CAIRN_CONFORMANCE_VERDICT_H
#define CAIRN_CONFORMANCE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

enum verdict_state {
	VERDICT_PASS,
	VERDICT_FAIL,
	VERDICT_SKIP,
};

#define VERDICT_LINES_MAX 8U
#define VERDICT_LINE_MAX  320U

/* A test passes unless a failure or skip is recorded. Lines beyond the limit are only
 * counted. */
struct verdict {
	enum verdict_state state;
	size_t n_lines;
	size_t lines_dropped;
	char lines[VERDICT_LINES_MAX][VERDICT_LINE_MAX]; /* one fact each, no newline */
};

/* Records a violated rule; a failed test stays failed. */
__attribute__((format(printf, 2, 3))) void conformance_verdict_fail(struct verdict *v,
								    const char *fmt, ...);

/* Records that the test is not possible here. */
__attribute__((format(printf, 2, 3))) void conformance_verdict_skip(struct verdict *v,
								    const char *fmt, ...);

/* Records a remark that is not a failure. */
__attribute__((format(printf, 2, 3))) void conformance_verdict_note(struct verdict *v,
								    const char *fmt, ...);

#endif
