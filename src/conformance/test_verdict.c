/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/test_verdict.h"

#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 2, 0))) static void test_verdict_add(struct verdict *v,
								   const char *fmt, va_list ap)
{
	char *line;

	if (v->n_lines == VERDICT_LINES_MAX) {
		v->lines_dropped++;
		return;
	}
	line = v->lines[v->n_lines++];
	vsnprintf(line, VERDICT_LINE_MAX, fmt, ap);
	for (char *c = line; *c; c++) {
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = ' '; /* a driver's text must not break our output */
	}
}

void conformance_verdict_fail(struct verdict *v, const char *fmt, ...)
{
	va_list ap;

	v->state = VERDICT_FAIL;
	va_start(ap, fmt);
	test_verdict_add(v, fmt, ap);
	va_end(ap);
}

void conformance_verdict_skip(struct verdict *v, const char *fmt, ...)
{
	va_list ap;

	if (v->state == VERDICT_PASS)
		v->state = VERDICT_SKIP;
	va_start(ap, fmt);
	test_verdict_add(v, fmt, ap);
	va_end(ap);
}

void conformance_verdict_note(struct verdict *v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	test_verdict_add(v, fmt, ap);
	va_end(ap);
}
