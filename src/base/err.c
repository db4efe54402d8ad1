/* SPDX-License-Identifier: Apache-2.0 */

#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The functions behind the macros of the same names. */
#undef cairn_err_set
#undef cairn_err_sys
#undef cairn_err_nomem
#undef cairn_err_wrap
#undef cairn_err_recode

/* Truncates to `size` - 1 bytes without splitting a UTF-8 character. */
static void cut_text(char *text, size_t size)
{
	size_t end = strnlen(text, size);
	size_t start = end;

	if (end + 1 < size)
		return;
	while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
		start--;
	if (start == 0)
		return;
	unsigned char lead = (unsigned char)text[start - 1];
	size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;

	if (end - (start - 1) < need)
		text[start - 1] = '\0';
}

__attribute__((format(printf, 2, 0))) static void format_text(struct cairn_err *err,
							      const char *fmt, va_list args)
{
	vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	cut_text(err->msg, sizeof(err->msg));
}

int cairn_err_set(struct cairn_err *err, int code, const char *fmt, ...)
{
	va_list args;

	if (!err)
		return code;
	err->code = code;
	err->sys_errno = 0;
	va_start(args, fmt);
	format_text(err, fmt, args);
	va_end(args);
	return code;
}

int cairn_err_sys(struct cairn_err *err, int sys_errno, const char *fmt, ...)
{
	int code = cairn_code_of_errno(sys_errno);
	char reason[128];
	size_t used;
	va_list args;

	if (!err)
		return code;
	err->code = code;
	err->sys_errno = sys_errno;
	va_start(args, fmt);
	format_text(err, fmt, args);
	va_end(args);
	used = strlen(err->msg);
	snprintf(err->msg + used, sizeof(err->msg) - used, ": %s",
		 strerror_r(sys_errno, reason, sizeof(reason)));
	cut_text(err->msg, sizeof(err->msg));
	return code;
}

int cairn_err_nomem(struct cairn_err *err, const char *what)
{
	return cairn_err_sys(err, ENOMEM, "%s", what);
}

int cairn_err_wrap(struct cairn_err *err, const char *fmt, ...)
{
	char old[sizeof(err->msg)];
	size_t used;
	va_list args;

	if (!err)
		return CAIRN_UNKNOWN;
	memcpy(old, err->msg, sizeof(old));
	va_start(args, fmt);
	format_text(err, fmt, args);
	va_end(args);
	used = strlen(err->msg);
	snprintf(err->msg + used, sizeof(err->msg) - used, ": %s", old);
	cut_text(err->msg, sizeof(err->msg));
	return err->code;
}

int cairn_err_recode(struct cairn_err *err, int code)
{
	if (err)
		err->code = code;
	return code;
}

int cairn_code_of_errno(int sys_errno)
{
	switch (sys_errno) {
	case 0:
		return CAIRN_OK;
	case ENOENT:
	case ENXIO:
	case ENODEV:
	case ESRCH:
		return CAIRN_NOT_FOUND;
	case EEXIST:
		return CAIRN_EXISTS;
	case EACCES:
	case EPERM:
		return CAIRN_DENIED;
	case ENOSPC:
	case EDQUOT:
	case ENOMEM:
	case EMFILE:
	case ENFILE:
	case EFBIG:
		return CAIRN_NO_SPACE;
	case EROFS:
	case EBUSY:
	case ETXTBSY:
	case ENOTEMPTY:
	case ENOTDIR:
	case EISDIR:
	case EXDEV:
		return CAIRN_PRECONDITION;
	case EINVAL:
	case ENAMETOOLONG:
	case ELOOP:
		return CAIRN_INVALID;
	case EAGAIN:
	case ECONNREFUSED:
	case ECONNRESET:
	case EPIPE:
	case ENOTCONN:
	case EHOSTUNREACH:
	case ENETUNREACH:
		return CAIRN_UNAVAILABLE;
	case ETIMEDOUT:
		return CAIRN_DEADLINE;
	case EINTR:
	case ECANCELED:
		return CAIRN_CANCELLED;
	case ENOSYS:
	case EOPNOTSUPP:
	case ENOTTY:
		return CAIRN_UNIMPLEMENTED;
	case EUCLEAN:
	case EBADMSG:
		return CAIRN_DATA_LOSS;
	default:
		return CAIRN_INTERNAL;
	}
}

const char *cairn_code_name(int code)
{
	static const char *const names[] = {
		"OK",
		"CANCELLED",
		"UNKNOWN",
		"INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED",
		"NOT_FOUND",
		"ALREADY_EXISTS",
		"PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION",
		"ABORTED",
		"OUT_OF_RANGE",
		"UNIMPLEMENTED",
		"INTERNAL",
		"UNAVAILABLE",
		"DATA_LOSS",
		"UNAUTHENTICATED",
	};

	if (code < 0)
		code = -code;
	return (unsigned)code < sizeof(names) / sizeof(names[0]) ? names[code] : "UNKNOWN";
}
