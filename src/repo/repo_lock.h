/* SPDX-License-Identifier: Apache-2.0 */

/* Locks of a repository, compatible with restic.
 *
 * A lock is a file: {"time","exclusive","hostname","username","pid"}; "processes" is
 * our extension and identifies the PID namespace (restic ignores it). To take a
 * lock, a process checks for locks that exclude it, writes its own, waits a moment
 * and checks again; of two that collide at least one sees the other and withdraws. A
 * holder renews its lock every five minutes by writing a new file and removing the
 * old one. A lock that was not renewed for thirty minutes, or whose process no
 * longer exists on this host, is stale and is removed by any process that finds it.
 * Containers may have the name of their host but PIDs of their own, so that a living
 * process seems dead. Therefore a dead PID makes a lock stale at once only if its
 * "processes" is ours; if the lock has no "processes", only after its holder should
 * have renewed it; otherwise the age alone decides.
 *
 * The second check may be left to the thread that renews (an early lock);
 * repo_lock_settle() waits for its result.
 *
 * Clocks of other hosts may be wrong, so a lock can be removed while its holder is
 * alive. The holder detects this: it checks that its file still exists before and
 * after a snapshot is saved and before anything is deleted. It measures the lock's
 * age with the monotonic clock. When the time of day is set, a holder rewrites its
 * lock, so that processes that use the new time see a recent lock.
 */
#ifndef CAIRN_REPO_LOCK_H
#define CAIRN_REPO_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_lock;
struct repo_names;
struct repo_options;

#define REPO_LOCK_RENEW_MS  ((uint64_t)5 * 60 * 1000)
#define REPO_LOCK_AGAIN_MS  ((uint64_t)60 * 1000)              /* after a renewal that failed */
#define REPO_LOCK_LOST_MS   ((uint64_t)22 * 60 * 1000 + 30000) /* not renewed: considered lost */
#define REPO_LOCK_STALE_MS  ((uint64_t)30 * 60 * 1000)
#define REPO_LOCK_SILENT_MS (2 * REPO_LOCK_RENEW_MS) /* a living holder has renewed it by then */
#define REPO_LOCK_PAUSE_MS  200
/* A file that became visible within this time after the lock was seen is in every listing of a
 * process that removed the lock: that process pauses for REPO_LOCK_PAUSE_MS before it lists. */
#define REPO_LOCK_FRESH_MS ((uint64_t)REPO_LOCK_PAUSE_MS * 3 / 4)
#define REPO_LOCK_LOOK_MS  ((uint64_t)1000)          /* how soon a clock that was set is noticed */
#define REPO_LOCK_JUMP_MS  ((uint64_t)2 * 60 * 1000) /* a clock that is slewed moves less */

#define REPO_PROCESSES_MAX 96

/* Contents of a lock file. Text is truncated to the arrays. */
struct repo_lock_info {
	int64_t time_ns;
	bool exclusive;
	char hostname[256];
	char username[64];
	int64_t pid;
	char processes[REPO_PROCESSES_MAX]; /* "" when missing */
};

/* The process that examines a lock. */
struct repo_lock_view {
	const char *host;
	char processes[REPO_PROCESSES_MAX]; /* this boot's and this namespace's; "": not known */
};

/* `host` is not copied. */
struct repo_lock_view repo_lock_view_of(const char *host);

/* The pure half. CAIRN_DATA_LOSS: not a lock. */
int repo_lock_decode(const char *json, size_t n, struct repo_lock_info *ret, struct cairn_err *err);

/* True when the lock cannot have a holder any more at the time `now_ns`. A lock
 * with a time in the future is not stale. */
bool repo_lock_stale(const struct repo_lock_info *info, int64_t now_ns,
		     const struct repo_lock_view *here);

/* Takes the lock specified in the options and starts renewing it. For an early
 * one (lock_early, shared) the second check is still pending.
 *
 * CAIRN_ABORTED  another lock excluded it for the whole waiting time
 */
int repo_lock_take(struct repo *repo, const struct repo_options *options, struct repo_lock **ret,
		   struct cairn_err *err);

/* Waits for the second check of an early lock; returns at once for other locks,
 * and after the check.
 *
 * CAIRN_ABORTED  another lock excludes it: ours was removed
 */
int repo_lock_settle(struct repo_lock *lock, struct cairn_err *err);

/* Ends all waiting for an early lock, which can only be released afterwards.
 * Accepts NULL. */
void repo_lock_give_up(struct repo_lock *lock);

/* Stops renewing the lock and removes it. Accepts NULL. */
void repo_lock_release(struct repo_lock *lock);

/* The same, and reports whether the store's reserve is complete after an exclusive lock: codes of
 * repo_store_reserve_keep(). The lock is released in any case. */
int repo_lock_end(struct repo_lock *lock, struct cairn_err *err);

bool repo_lock_exclusive(const struct repo_lock *lock);

/* A clock that continues while the machine sleeps, and is never set. */
uint64_t repo_lock_clock_ms(void);

/* `listed` (may be NULL): locks of a listing that began just now; asks the store only if the lock is
 * not among them.
 *
 * CAIRN_ABORTED  it was removed, or could not be renewed in time
 */
int repo_lock_verify(struct repo_lock *lock, const struct repo_names *listed,
		     struct cairn_err *err);

#endif
