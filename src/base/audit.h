/* SPDX-License-Identifier: Apache-2.0 */

/* Audit log: one line of JSON on standard error for every request for blocks or data,
 * granted or refused. cairn(1) documents its fields. Unlike a log it does not depend on
 * --log-level, and it contains no token and no data.
 *
 * Unauthenticated callers can cause at most CAIRN_AUDIT_STRANGERS lines a second, whatever
 * they send; the next line contains the number of omitted ones. Strings are truncated to
 * CAIRN_AUDIT_TEXT_MAX bytes.
 *
 * Thread-safe.
 */
#ifndef CAIRN_BASE_AUDIT_H
#define CAIRN_BASE_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_buf;

#define CAIRN_AUDIT_STRANGERS 10U /* lines a second, and the burst */
#define CAIRN_AUDIT_BURST     100U
#define CAIRN_AUDIT_TEXT_MAX  256U
#define CAIRN_AUDIT_LINE_MAX  16384U

/* Strings may be NULL, which means "". */
struct cairn_audit {
	const char *op;       /* the method, or the path of an HTTP request */
	bool allowed;         /* the caller was authenticated and authorized */
	const char *user;     /* "" if not authenticated */
	const char *peer;     /* address and port */
	const char *ns;       /* of the VolumeSnapshots */
	const char *snapshot; /* the target */
	const char *base;     /* name or handle, from the request */
	uint64_t bytes;       /* sent to the caller */
	int code;             /* result: 0 or a code of base/err.h */
	uint64_t ms;          /* duration */
};

/* Writes the line, unless unauthenticated callers have caused too many. */
void cairn_audit_write(const struct cairn_audit *audit);

/* Formats the line, including the line break, for tests. */
void cairn_audit_format(const struct cairn_audit *audit, uint64_t left_out, struct cairn_buf *out);

#endif
