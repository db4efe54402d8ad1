/* SPDX-License-Identifier: Apache-2.0 */

#include "conformance/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "conformance/suite.h"

#define XML_MAX  (4U << 20)
#define TEXT_MAX (64U << 10)

void conformance_report_init(struct report *r, bool junit)
{
	*r = (struct report){.junit = junit};
	cairn_buf_init(&r->xml, XML_MAX);
}

void conformance_report_done(struct report *r)
{
	cairn_buf_done(&r->xml);
}

static void report_print(struct report *r, const struct cairn_buf *text)
{
	if (r->sys_errno)
		return;
	if (cairn_buf_failed(text))
		r->sys_errno = ENOMEM;
	else if (cairn_write_full(STDOUT_FILENO, text->data, text->len) != 0)
		r->sys_errno = errno;
}

void conformance_report_begin(struct report *r, const struct target *target, size_t n)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(TEXT_MAX);

	cairn_buf_addf(&text, "TAP version 13\n# driver %s %s, node %s\n1..%zu\n", target->name,
		       target->version, target->node_id, n);
	report_print(r, &text);
}

static void add_tap(struct cairn_buf *text, const struct suite_test *test, const struct verdict *v,
		    size_t number)
{
	bool skip = v->state == VERDICT_SKIP;

	cairn_buf_addf(text, "%s %zu - %s", v->state == VERDICT_FAIL ? "not ok" : "ok", number,
		       test->name);
	if (skip)
		cairn_buf_addf(text, " # SKIP %s", v->n_lines ? v->lines[0] : "");
	cairn_buf_addc(text, '\n');
	if (v->state == VERDICT_FAIL)
		cairn_buf_addf(text, "#   rule: %s\n", test->rule);
	for (size_t i = skip; i < v->n_lines; i++)
		cairn_buf_addf(text, "#   %s\n", v->lines[i]);
	if (v->lines_dropped)
		cairn_buf_addf(text, "#   and %zu more\n", v->lines_dropped);
}

static void report_add_escaped(struct cairn_buf *xml, const char *text)
{
	for (; *text; text++) {
		if (*text == '&')
			cairn_buf_adds(xml, "&amp;");
		else if (*text == '<')
			cairn_buf_adds(xml, "&lt;");
		else if (*text == '"')
			cairn_buf_adds(xml, "&quot;");
		else
			cairn_buf_addc(xml, *text);
	}
}

static void add_junit(struct cairn_buf *xml, const struct suite_test *test, const struct verdict *v,
		      uint64_t ns)
{
	static const char *const elements[] = {[VERDICT_PASS] = "system-out",
					       [VERDICT_FAIL] = "failure",
					       [VERDICT_SKIP] = "skipped"};
	const char *dot = strchr(test->name, '.');

	cairn_buf_addf(xml,
		       "  <testcase classname=\"SnapshotMetadata.%.*s\" name=\"%s\" "
		       "time=\"%.3f\">\n",
		       (int)(dot - test->name), test->name, test->name,
		       (double)ns / (double)CAIRN_NS_PER_SEC);
	if (v->n_lines > 0 || v->state != VERDICT_PASS) {
		cairn_buf_addf(xml, "    <%s", elements[v->state]);
		if (v->state != VERDICT_PASS) {
			cairn_buf_adds(xml, " message=\"");
			report_add_escaped(xml, v->n_lines ? v->lines[0] : "");
			cairn_buf_addc(xml, '"');
		}
		cairn_buf_addf(xml, ">rule: %s\n", test->rule);
		for (size_t i = 0; i < v->n_lines; i++) {
			report_add_escaped(xml, v->lines[i]);
			cairn_buf_addc(xml, '\n');
		}
		cairn_buf_addf(xml, "</%s>\n", elements[v->state]);
	}
	cairn_buf_adds(xml, "  </testcase>\n");
}

void conformance_report_result(struct report *r, const struct suite_test *test,
			       const struct verdict *v, uint64_t ns)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(TEXT_MAX);

	r->passed += v->state == VERDICT_PASS;
	r->failed += v->state == VERDICT_FAIL;
	r->skipped += v->state == VERDICT_SKIP;
	r->ns += ns;
	add_tap(&text, test, v, r->passed + r->failed + r->skipped);
	report_print(r, &text);
	if (r->junit)
		add_junit(&r->xml, test, v, ns);
}

void conformance_report_remark(struct report *r, const char *remark)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(TEXT_MAX);

	cairn_buf_addf(&text, "# %s\n", remark);
	report_print(r, &text);
}

void conformance_report_bail_out(struct report *r, const char *why)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(TEXT_MAX);

	cairn_buf_addf(&text, "Bail out! %s\n", why);
	report_print(r, &text);
}

void conformance_report_end(struct report *r)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(TEXT_MAX);

	cairn_buf_addf(&text, "# %zu passed, %zu failed, %zu skipped\n", r->passed, r->failed,
		       r->skipped);
	report_print(r, &text);
}

int conformance_report_write_junit(const struct report *r, const char *path, struct cairn_err *err)
{
	cairn_auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	char head[320];
	int n;

	if (fd < 0)
		return cairn_err_sys(err, errno, "write '%s'", path);
	n = snprintf(head, sizeof(head),
		     "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		     "<testsuite name=\"cairn-conformance\" tests=\"%zu\" failures=\"%zu\" "
		     "errors=\"0\" skipped=\"%zu\" time=\"%.3f\">\n",
		     r->passed + r->failed + r->skipped, r->failed, r->skipped,
		     (double)r->ns / (double)CAIRN_NS_PER_SEC);
	if (cairn_buf_failed(&r->xml))
		return cairn_err_nomem(err, "JUnit report");
	if (cairn_write_full(fd, head, (size_t)n) != 0 ||
	    cairn_write_full(fd, r->xml.data, r->xml.len) != 0 ||
	    cairn_write_full(fd, "</testsuite>\n", 13) != 0)
		return cairn_err_sys(err, errno, "write '%s'", path);
	return 0;
}
