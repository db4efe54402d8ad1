/* SPDX-License-Identifier: Apache-2.0 */

/* The audit: one line of JSON on standard error for every answer with somebody's
 * blocks or data, given or refused. cairn(1) documents its fields. Unlike a log it does
 * not depend on --log-level, and it holds no token and no data.
 *
 * Callers that are not known can make us write at most CAIRN_AUDIT_STRANGERS lines a
 * second, whatever they send; the next line says how many were left out. Texts are cut
 * at CAIRN_AUDIT_TEXT_MAX bytes.
 *
 * Thread-safe.
 */
#ifndef CAIRN_BASE_AUDIT_H
#define CAIRN_BASE_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_buf;

#define CAIRN_AUDIT_STRANGERS 10U /* lines a second, and so many more at once */
#define CAIRN_AUDIT_BURST     100U
#define CAIRN_AUDIT_TEXT_MAX  256U
#define CAIRN_AUDIT_LINE_MAX  16384U

/* Texts may be NULL, which is "". */
struct cairn_audit {
	const char *op;       /* the method, or the path of an HTTP request */
	bool allowed;         /* the caller was known and had the right */
	const char *user;     /* "" where nobody was recognized */
	const char *peer;     /* address and port */
	const char *ns;       /* of the VolumeSnapshots */
	const char *snapshot; /* the target */
	const char *base;     /* name or handle, as the caller named it */
	uint64_t bytes;       /* sent to the caller */
	int code;             /* how it ended: 0 or one of base/err.h */
	uint64_t ms;          /* how long it took */
};

/* Writes the line, unless a stranger has caused too many. */
void cairn_audit_write(const struct cairn_audit *audit);

/* The line, with its line break, for tests. */
void cairn_audit_format(const struct cairn_audit *audit, uint64_t left_out, struct cairn_buf *out);

#endif
