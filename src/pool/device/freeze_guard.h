/* SPDX-License-Identifier: Apache-2.0 */

/* The process that holds filesystems frozen.
 *
 * It runs in a child forked from a process that may have many threads, so it
 * calls only async-signal-safe functions and allocates nothing. It has a
 * session of its own, so a signal to its parent's process group does not kill
 * it before it thaws.
 *
 * Protocol on the socket: the guard freezes and sends a reply (done, or which
 * one failed and why); on failure it has thawed everything and exits. The
 * parent sends one byte; the guard thaws and sends a second reply (`broken`
 * when the freeze did not last until then), and exits. End of file instead of
 * the byte thaws without a reply.
 */
#ifndef CAIRN_POOL_FREEZE_GUARD_H
#define CAIRN_POOL_FREEZE_GUARD_H

#include <stddef.h>
#include <stdint.h>

/* Enough for the largest group of volumes, with a few devices on each. */
#define FREEZE_MOUNTS_MAX 256U

enum freeze_broken {
	FREEZE_HELD,
	FREEZE_EXPIRED, /* held for the longest time allowed, then thawed */
	FREEZE_THAWED,  /* another process thawed one of them */
};

struct freeze_reply {
	int32_t sys_errno; /* 0: done */
	uint32_t index;    /* of the mount that sys_errno is about */
	uint32_t broken;   /* enum freeze_broken */
};

struct freeze_plan {
	int socket; /* the guard's end */
	int mounts[FREEZE_MOUNTS_MAX];
	size_t n;
	uint64_t hold_max_ms;
};

/* Freezes in order, waits, thaws in reverse order, and exits the process. */
_Noreturn void pool_freeze_guard_run(const struct freeze_plan *plan);

#endif
