/* SPDX-License-Identifier: Apache-2.0 */

/* Locks of a repository, as restic keeps them.
 *
 * A lock is a file: {"time","exclusive","hostname","username","pid"}; "processes" is
 * ours, and says which numbers of processes those are (others skip it). Whoever
 * wants one looks for those that exclude it, writes its own, waits a moment and
 * looks again; of two who collide at least one sees the other and steps back. A
 * holder renews it every five minutes by writing a new file and removing the old
 * one. One that was not renewed for thirty minutes, or whose process is gone
 * from this host, is stale and removed by whoever meets it. Containers may have the
 * name of their host and numbers of their own, in which a process that lives seems
 * gone: only a lock with our "processes" is judged so at once, one that does not say
 * when its holder would have renewed it, and any other by its age alone.
 *
 * The second look may be left to the thread that renews (an early lock): whoever
 * needs its answer waits for it with repo_lock_settle().
 *
 * Time on other hosts may be wrong, so a lock can be removed while its holder
 * lives. The holder notices: it asks whether its file is still there before
 * and after a snapshot is saved and before anything is deleted. Its own age is
 * measured with a clock that does not jump. When the time of day is set, a holder
 * writes its lock anew, so that those who see the new time see a young lock.
 */
#ifndef CAIRN_REPO_LOCK_H
#define CAIRN_REPO_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct repo;
struct repo_lock;
struct repo_options;

#define REPO_LOCK_RENEW_MS  ((uint64_t)5 * 60 * 1000)
#define REPO_LOCK_AGAIN_MS  ((uint64_t)60 * 1000)              /* after a renewal that failed */
#define REPO_LOCK_LOST_MS   ((uint64_t)22 * 60 * 1000 + 30000) /* not renewed: given up */
#define REPO_LOCK_STALE_MS  ((uint64_t)30 * 60 * 1000)
#define REPO_LOCK_SILENT_MS (2 * REPO_LOCK_RENEW_MS) /* a holder that lives renewed it */
#define REPO_LOCK_PAUSE_MS  200
#define REPO_LOCK_LOOK_MS   ((uint64_t)1000)          /* how soon a clock that was set is seen */
#define REPO_LOCK_JUMP_MS   ((uint64_t)2 * 60 * 1000) /* a clock that is slewed moves less */

#define REPO_PROCESSES_MAX 96

/* What stands in a lock file. Text is cut to the arrays. */
struct repo_lock_info {
	int64_t time_ns;
	bool exclusive;
	char hostname[256];
	char username[64];
	int64_t pid;
	char processes[REPO_PROCESSES_MAX]; /* "" when it does not say */
};

/* Who looks at a lock. */
struct repo_lock_view {
	const char *host;
	char processes[REPO_PROCESSES_MAX]; /* this boot's and this namespace's; "": not known */
};

/* `host` is not copied. */
struct repo_lock_view repo_lock_view_of(const char *host);

/* The pure half. CAIRN_DATA_LOSS: no lock. */
int repo_lock_decode(const char *json, size_t n, struct repo_lock_info *ret, struct cairn_err *err);

/* True when nobody can hold it any more: `now_ns` is the time. A time in the future
 * is not stale. */
bool repo_lock_stale(const struct repo_lock_info *info, int64_t now_ns,
		     const struct repo_lock_view *here);

/* Takes the lock that the options ask for and starts renewing it. An early one
 * (lock_early, shared) is not looked at again yet.
 *
 * CAIRN_ABORTED  somebody else's lock excludes it, after the time to wait
 */
int repo_lock_take(struct repo *repo, const struct repo_options *options, struct repo_lock **ret,
		   struct cairn_err *err);

/* Waits until an early lock was looked at again; at once for any other, or again.
 *
 * CAIRN_ABORTED  somebody else's excludes it: it was removed
 */
int repo_lock_settle(struct repo_lock *lock, struct cairn_err *err);

/* Whoever waits for an early lock waits no longer; it can only be released then.
 * Accepts NULL. */
void repo_lock_give_up(struct repo_lock *lock);

/* Stops renewing and removes it. Accepts NULL. */
void repo_lock_release(struct repo_lock *lock);

bool repo_lock_exclusive(const struct repo_lock *lock);

/* CAIRN_ABORTED  it was removed, or could not be renewed in time */
int repo_lock_verify(struct repo_lock *lock, struct cairn_err *err);

#endif
