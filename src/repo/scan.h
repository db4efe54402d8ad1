/* SPDX-License-Identifier: Apache-2.0 */

/* Pull parser for JSON that creates no objects.
 *
 * An index file lists fifty thousand blobs, a volume's tree a quarter of a
 * million ids; as a tree of objects each would take many times its size. So
 * these two large documents are read with a pull parser. (Small documents are
 * read with jansson.) The first error is sticky: later calls do nothing and
 * repo_scan_failed() is true, so a sequence of calls needs one check.
 *
 * 	repo_scan_object(&scan);
 * 	while (repo_scan_member(&scan, &key))
 * 		if (repo_scan_is(&key, "id"))
 * 			repo_scan_string(&scan, &id);
 * 		else
 * 			repo_scan_skip(&scan);
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

/* The raw text between the quotes of a string. */
struct repo_scan_text {
	const char *at;
	size_t n;
	bool escaped; /* holds a backslash */
};

void repo_scan_init(struct repo_scan *scan, const char *json, size_t n);
bool repo_scan_failed(const struct repo_scan *scan);

/* True when only white space is left and nothing failed. */
bool repo_scan_end(struct repo_scan *scan);

void repo_scan_object(struct repo_scan *scan);
void repo_scan_array(struct repo_scan *scan);

/* The next member's key, or the next element; false at the end of the object or
 * array, which is then consumed, and on failure. */
bool repo_scan_member(struct repo_scan *scan, struct repo_scan_text *ret_key);
bool repo_scan_element(struct repo_scan *scan);

/* The next value. repo_scan_null() is true, and consumes the value, only if it
 * is null; it does not fail. */
void repo_scan_string(struct repo_scan *scan, struct repo_scan_text *ret);
uint64_t repo_scan_u64(struct repo_scan *scan);
bool repo_scan_null(struct repo_scan *scan);
void repo_scan_skip(struct repo_scan *scan);

/* True if the text is exactly `text`; always false for one with escapes. */
bool repo_scan_is(const struct repo_scan_text *a, const char *text);

/* Appends the unescaped string as UTF-8; an unpaired surrogate becomes U+FFFD.
 * False when an escape is invalid. */
bool repo_scan_unescape(const struct repo_scan_text *text, struct cairn_buf *out);

#endif
