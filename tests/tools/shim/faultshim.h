/* SPDX-License-Identifier: Apache-2.0 */

/* What the wrappers of the fault shim share; see faultshim.c for what it does. */
#ifndef CAIRN_TESTS_SHIM_FAULTSHIM_H
#define CAIRN_TESTS_SHIM_FAULTSHIM_H

#include <stdbool.h>
#include <stdint.h>

/* A call that counts is between an enter and the leave. */
struct call {
	uint64_t n; /* 0: does not count */
};

/* Count the call if it is one of those that count. False when it must fail,
 * with errno set. */
bool shim_enter_fd(struct call *call, const char *name, int fd);
bool shim_enter_path(struct call *call, const char *name, int dir, const char *path);

/* Counts in any case; `reads`: only when reading calls are wanted. */
bool shim_enter_any(struct call *call, const char *name, int fd, bool reads, bool may_fail);

/* Passes `result` through, unless this is where to die. */
long shim_leave(const struct call *call, long result);

/* Defines the function under its own symbol: with 64-bit offsets the headers
 * rename some, and both names must be caught. */
#define SHIM_SHOWN __attribute__((visibility("default")))
#define WRAP(type, name, ...)                                    \
	SHIM_SHOWN type shim_##name(__VA_ARGS__) __asm__(#name); \
	type shim_##name(__VA_ARGS__)
#define ALIAS(type, name, of, ...) \
	SHIM_SHOWN type shim_##name(__VA_ARGS__) __asm__(#name) __attribute__((alias(#of)))

#define ON_FD(type, name, fd, ...)           \
	struct call call;                    \
	if (!shim_enter_fd(&call, name, fd)) \
		return -1;                   \
	return (type)shim_leave(&call, syscall(__VA_ARGS__))

#define ON_PATH(type, name, dir, path, ...)           \
	struct call call;                             \
	if (!shim_enter_path(&call, name, dir, path)) \
		return -1;                            \
	return (type)shim_leave(&call, syscall(__VA_ARGS__))

#endif
