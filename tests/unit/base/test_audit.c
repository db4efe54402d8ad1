/* SPDX-License-Identifier: Apache-2.0 */

#include "cairntest.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/audit.h"
#include "base/buf.h"
#include "base/cleanup.h"

static void a_line_says_who_got_what(void **state)
{
	static const struct cairn_audit audit = {
		.op = "GetMetadataDelta",
		.allowed = true,
		.user = "ann \"the\" \x1b[31m",
		.peer = "10.0.0.7:5123",
		.ns = "app",
		.snapshot = "after",
		.bytes = 4096,
		.code = CAIRN_CANCELLED,
		.ms = 12,
	};
	cairn_auto_buf struct cairn_buf line = CAIRN_BUF_INIT(CAIRN_AUDIT_LINE_MAX);

	(void)state;
	cairn_audit_format(&audit, 3, &line);
	cairn_buf_addc(&line, '\0');
	assert_false(cairn_buf_failed(&line));
	assert_non_null(
		strstr((const char *)line.data,
		       "\"audit\":\"GetMetadataDelta\",\"decision\":\"allowed\","
		       "\"user\":\"ann \\\"the\\\" \\u001b[31m\",\"peer\":\"10.0.0.7:5123\","
		       "\"namespace\":\"app\",\"snapshot\":\"after\",\"base\":\"\","
		       "\"bytes\":4096,\"code\":\"CANCELLED\",\"ms\":12,\"left_out\":3}\n"));
}

static void long_texts_are_cut_and_a_line_always_fits(void **state)
{
	static char text[100000];
	struct cairn_audit audit = {.op = text, .user = text, .peer = text};
	cairn_auto_buf struct cairn_buf line = CAIRN_BUF_INIT(CAIRN_AUDIT_LINE_MAX);

	(void)state;
	memset(text, '\x01', sizeof(text) - 1);
	audit.ns = audit.snapshot = audit.base = text;
	cairn_audit_format(&audit, UINT64_MAX, &line);
	assert_false(cairn_buf_failed(&line));
}

/* Lines in what was written to the file. */
static unsigned count_lines(int fd)
{
	char piece[4096];
	unsigned lines = 0;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, piece, sizeof(piece), at)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			lines += piece[i] == '\n';
		at += n;
	}
	return lines;
}

static void strangers_do_not_fill_the_disk(void **state)
{
	struct cairn_audit audit = {.op = "GetDelta", .peer = "10.0.0.7:1"};
	int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	FILE *file = tmpfile();
	unsigned strangers, known;

	(void)state;
	assert_non_null(file);
	assert_int_equal(dup2(fileno(file), STDERR_FILENO), STDERR_FILENO);
	for (int i = 0; i < 20000; i++)
		cairn_audit_write(&audit);
	strangers = count_lines(fileno(file));
	audit.user = "ann";
	for (int i = 0; i < 500; i++)
		cairn_audit_write(&audit);
	known = count_lines(fileno(file)) - strangers;
	dup2(saved, STDERR_FILENO);
	close(saved);
	fclose(file);
	/* A machine that takes minutes for the loop allows ten lines a second more. */
	assert_in_range(strangers, CAIRN_AUDIT_BURST, 10000);
	assert_int_equal(known, 500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_says_who_got_what),
		cmocka_unit_test(long_texts_are_cut_and_a_line_always_fits),
		cmocka_unit_test(strangers_do_not_fill_the_disk),
	};

	return cmocka_run_group_tests_name("base/audit", tests, NULL, NULL);
}
