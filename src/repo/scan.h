/* SPDX-License-Identifier: Apache-2.0 */

/* Pulls values out of JSON bytes without making objects of them.
 *
 * An index file lists fifty thousand blobs, a volume's tree a quarter of a
 * million ids; as a tree of objects each would take many times its size.
 * So the two large documents are read by asking for what comes next. (Small
 * documents are read with jansson.) The first surprise sticks: later calls do
 * nothing and repo_scan_failed() tells, so a run of calls needs one check.
 *
 *	repo_scan_object(&scan);
 *	while (repo_scan_member(&scan, &key))
 *		if (repo_scan_is(&key, "id"))
 *			repo_scan_string(&scan, &id);
 *		else
 *			repo_scan_skip(&scan);
 */
#ifndef CAIRN_REPO_SCAN_H
#define CAIRN_REPO_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_buf;

#define REPO_SCAN_DEPTH_MAX 64

struct repo_scan {
	const char *at, *end;
	unsigned depth; /* of what is being skipped */
	bool first;     /* an object or array was just opened */
	bool failed;
};

/* A string as it stands between its quotes. */
struct repo_scan_text {
	const char *at;
	size_t n;
	bool escaped; /* holds a backslash */
};

void repo_scan_init(struct repo_scan *scan, const char *json, size_t n);
bool repo_scan_failed(const struct repo_scan *scan);

/* True when nothing but white space is left and nothing failed. */
bool repo_scan_end(struct repo_scan *scan);

void repo_scan_object(struct repo_scan *scan);
void repo_scan_array(struct repo_scan *scan);

/* The next member's key, or the next element; false at the end of the object or
 * array, which is then behind us, and on failure. */
bool repo_scan_member(struct repo_scan *scan, struct repo_scan_text *ret_key);
bool repo_scan_element(struct repo_scan *scan);

/* The value that follows. repo_scan_null() is true, and takes it, only if it is
 * null; it does not fail. */
void repo_scan_string(struct repo_scan *scan, struct repo_scan_text *ret);
uint64_t repo_scan_u64(struct repo_scan *scan);
bool repo_scan_null(struct repo_scan *scan);
void repo_scan_skip(struct repo_scan *scan);

/* Whether the text is exactly `text`; one with escapes never is. */
bool repo_scan_is(const struct repo_scan_text *a, const char *text);

/* Appends what the string means, as UTF-8; half of a surrogate pair is U+FFFD.
 * False when an escape is wrong. */
bool repo_scan_unescape(const struct repo_scan_text *text, struct cairn_buf *out);

#endif
