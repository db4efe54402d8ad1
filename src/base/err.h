/* SPDX-License-Identifier: Apache-2.0 */

/* Error value carried up a call chain.
 *
 * A function that can fail for more than one reason returns `int`: 0, or a
 * negative code from `enum cairn_code`. The caller hands it a `struct
 * cairn_err`, which the failing function fills with the code, the errno that
 * caused it and one line of text. Each frame that knows something the frame
 * below did not adds a prefix; no frame replaces the text.
 *
 * The codes are the gRPC status codes, negated, because every error of ours
 * ends its life as a gRPC status or as the exit code of a tool. The value is
 * flat and never allocates, so reporting "out of memory" cannot fail.
 */
#ifndef CAIRN_BASE_ERR_H
#define CAIRN_BASE_ERR_H

enum cairn_code {
	CAIRN_OK = 0,
	CAIRN_CANCELLED = -1,
	CAIRN_UNKNOWN = -2,  /* a peer's error that carries no better code */
	CAIRN_INVALID = -3,  /* the caller's request is wrong; do not retry */
	CAIRN_DEADLINE = -4, /* the time given was not enough */
	CAIRN_NOT_FOUND = -5,
	CAIRN_EXISTS = -6,       /* exists with other parameters */
	CAIRN_DENIED = -7,       /* PERMISSION_DENIED */
	CAIRN_NO_SPACE = -8,     /* RESOURCE_EXHAUSTED: disk, memory or a limit */
	CAIRN_PRECONDITION = -9, /* the state must change before a retry helps */
	CAIRN_ABORTED = -10,     /* another operation holds this volume; retry */
	CAIRN_RANGE = -11,       /* OUT_OF_RANGE */
	CAIRN_UNIMPLEMENTED = -12,
	CAIRN_INTERNAL = -13,
	CAIRN_UNAVAILABLE = -14, /* retry with back-off */
	CAIRN_DATA_LOSS = -15,   /* a checksum or an invariant of stored data is broken */
	CAIRN_UNAUTHENTICATED = -16,
};

#define CAIRN_ERR_TEXT_MAX 480

struct cairn_err {
	int code;
	int sys_errno; /* 0 if no system call failed */
	char msg[CAIRN_ERR_TEXT_MAX];
};

/* Fills `err` and returns `code`, so that a failure is one statement.
 * `err` may be NULL. Text that does not fit is cut at a character boundary. */
__attribute__((format(printf, 3, 4))) int cairn_err_set(struct cairn_err *err, int code,
							const char *fmt, ...);

/* Like cairn_err_set(); maps `sys_errno` to a code and appends its text. */
__attribute__((format(printf, 3, 4))) int cairn_err_sys(struct cairn_err *err, int sys_errno,
							const char *fmt, ...);

/* Out of memory while making `what`. Returns CAIRN_NO_SPACE. */
int cairn_err_nomem(struct cairn_err *err, const char *what);

/* Prefixes the text already in `err` with the new text and ": "; returns its
 * code. `err` may be NULL, and then CAIRN_UNKNOWN is returned: a caller that
 * wants the code kept must pass an err to the function that failed. */
__attribute__((format(printf, 2, 3))) int cairn_err_wrap(struct cairn_err *err, const char *fmt,
							 ...);

/* Gives the failure in `err` another code, keeps its text, and returns the code. `err` may be
 * NULL. */
int cairn_err_recode(struct cairn_err *err, int code);

/* A failure is negative: said once more where callers see it, because compilers
 * and analyzers, which cannot look into another file, would otherwise follow
 * paths on which the failing call returned 0 and left its outputs unset. */
static inline int cairn_err_negative(int code)
{
	return code < 0 ? code : CAIRN_INTERNAL;
}
#define cairn_err_set(...)    cairn_err_negative(cairn_err_set(__VA_ARGS__))
#define cairn_err_sys(...)    cairn_err_negative(cairn_err_sys(__VA_ARGS__))
#define cairn_err_nomem(...)  cairn_err_negative(cairn_err_nomem(__VA_ARGS__))
#define cairn_err_wrap(...)   cairn_err_negative(cairn_err_wrap(__VA_ARGS__))
#define cairn_err_recode(...) cairn_err_negative(cairn_err_recode(__VA_ARGS__))

/* The code that an errno stands for, as a negative `enum cairn_code`. */
int cairn_code_of_errno(int sys_errno);

/* The gRPC name of a code, such as "NOT_FOUND"; accepts either sign. */
const char *cairn_code_name(int code);

#endif
