/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_lock.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/wait.h"
#include "repo/instant.h"
#include "repo/lock_list.h"
#include "repo/repo_impl.h"
#include "repo/repo_json.h"

#define PAUSE_SLICE_MS 20U /* how soon a request to give up an early lock is noticed */

struct repo_lock {
	struct repo *repo;
	bool exclusive;
	uint64_t renew_ms, pause_ms;
	pthread_t thread;
	bool running;
	pthread_mutex_t mutex; /* guards all fields below */
	pthread_cond_t wake;   /* signals `stop` */
	pthread_cond_t looked; /* signals `settled` */
	bool stop;
	bool settled; /* the second check is done, with this result: */
	int settled_rc;
	struct cairn_err settled_err;
	bool lost;
	struct repo_id name;
	uint64_t written_ms; /* as repo_lock_clock_ms() */
	int64_t ahead_ms;    /* time of day minus repo_lock_clock_ms() then */
};

uint64_t repo_lock_clock_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static int64_t ahead_ms(void)
{
	return (int64_t)(cairn_now_ns() / CAIRN_NS_PER_MS) - (int64_t)repo_lock_clock_ms();
}

/* True if the time of day was set since the lock was last written. */
static bool clock_jumped(const struct repo_lock *lock)
{
	int64_t by = ahead_ms() - lock->ahead_ms;

	return by > (int64_t)REPO_LOCK_JUMP_MS || by < -(int64_t)REPO_LOCK_JUMP_MS;
}

static int repo_lock_write_lock(struct repo *repo, bool exclusive, struct repo_id *ret,
				struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf json = CAIRN_BUF_INIT(REPO_LOCK_FILE_MAX);
	struct repo_lock_view here = repo_lock_view_of(repo->here);
	char time[REPO_INSTANT_TEXT_MAX];

	cairn_buf_addf(&json, "{\"time\":\"%s\",\"exclusive\":%s,\"hostname\":",
		       repo_instant_format((int64_t)cairn_now_ns(), time),
		       exclusive ? "true" : "false");
	repo_json_string(&json, repo->here);
	cairn_buf_adds(&json, ",\"username\":");
	repo_json_string(&json, repo->username);
	cairn_buf_addf(&json, ",\"pid\":%d,\"uid\":%u,\"gid\":%u", (int)getpid(),
		       (unsigned)getuid(), (unsigned)getgid());
	if (here.processes[0]) {
		cairn_buf_adds(&json, ",\"processes\":");
		repo_json_string(&json, here.processes);
	}
	cairn_buf_addc(&json, '}');
	if (cairn_buf_failed(&json))
		return cairn_err_nomem(err, "a lock");
	return repo_file_save(repo, REPO_FILE_LOCK, json.data, json.len, ret, err);
}

static int repo_lock_there(struct repo *repo, const struct repo_id *name, struct cairn_err *err)
{
	uint64_t size;
	int rc = repo_store_size(repo->store, REPO_FILE_LOCK, name, &size, err);

	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_ABORTED,
				     "the lock on the repository was removed by somebody else");
	return rc;
}

static bool wait_for_stop(struct repo_lock *lock, uint64_t ms)
{
	uint64_t until = cairn_after_ms(ms);

	while (!lock->stop && cairn_cond_wait_until(&lock->wake, &lock->mutex, until))
		;
	return lock->stop;
}

/* Writes a new file, then removes the old one, so that the name that other
 * threads check always exists. If the old one no longer exists, another process
 * may have changed anything meanwhile. Called with the mutex held, which is
 * released. */
static int repo_lock_renew(struct repo_lock *lock, struct cairn_err *err)
{
	struct repo_id old = lock->name, fresh;
	int64_t ahead;
	int rc;

	pthread_mutex_unlock(&lock->mutex);
	ahead = ahead_ms();
	rc = repo_lock_there(lock->repo, &old, err);
	if (rc == 0)
		rc = repo_lock_write_lock(lock->repo, lock->exclusive, &fresh, err);
	pthread_mutex_lock(&lock->mutex);
	if (rc < 0)
		return rc;
	lock->name = fresh;
	lock->written_ms = repo_lock_clock_ms();
	lock->ahead_ms = ahead;
	pthread_mutex_unlock(&lock->mutex);
	rc = repo_store_remove(lock->repo->store, REPO_FILE_LOCK, &old, err);
	pthread_mutex_lock(&lock->mutex);
	return rc;
}

/* Waits until the lock must be renewed: after `ms`, or if the clock was set, because other
 * machines may then consider the lock stale. True if the lock is to be released. */
static bool wait_to_renew(struct repo_lock *lock, uint64_t ms)
{
	uint64_t begun = repo_lock_clock_ms(), passed = 0;

	while (passed < ms && !clock_jumped(lock)) {
		uint64_t left = ms - passed;

		if (wait_for_stop(lock, left < REPO_LOCK_LOOK_MS ? left : REPO_LOCK_LOOK_MS))
			return true;
		passed = repo_lock_clock_ms() - begun;
	}
	return lock->stop;
}

/* Lists locks and, for an early lock, what may have changed before it was certain. */
static int repo_lock_survey(struct repo *repo, bool early, struct repo_survey *ret,
			    struct cairn_err *err)
{
	static const enum repo_file kinds[] = {REPO_FILE_LOCK, REPO_FILE_INDEX};

	if (early && repo->store->ops->list_rest)
		return repo_survey_take(repo->store, kinds, 2, ret, err);
	return repo_names_list(repo->store, REPO_FILE_LOCK, &ret->names[REPO_FILE_LOCK], err);
}

/* Checks that the lock still exists and that no other lock excludes it. If it must
 * withdraw, its file is removed. */
static int repo_lock_look_again(struct repo_lock *lock, bool early, struct cairn_err *err)
{
	cairn_cleanup(repo_survey_done) struct repo_survey survey = {0};
	const struct repo_names *locks = &survey.names[REPO_FILE_LOCK];
	struct repo *repo = lock->repo;
	int rc = repo_lock_survey(repo, early, &survey, err);

	if (rc == 0)
		rc = repo_lock_conflict(repo, lock->exclusive, &lock->name, locks, err);
	if (rc == 0 && !repo_names_find(locks, &lock->name))
		rc = repo_lock_there(repo, &lock->name, err);
	if (rc < 0) {
		repo_store_remove(repo->store, REPO_FILE_LOCK, &lock->name, NULL);
		return rc;
	}
	repo_survey_done(&repo->settled);
	repo->settled = survey;
	survey = (struct repo_survey){0};
	return 0;
}

/* Pauses before the second check. Sleeps in slices, so that the pause has its full length
 * even if a clock is set. Called with the mutex held, which is released meanwhile. */
static bool pause_or_stop(struct repo_lock *lock)
{
	uint64_t left = lock->pause_ms;

	while (left > 0 && !lock->stop) {
		uint64_t slice = left < PAUSE_SLICE_MS ? left : PAUSE_SLICE_MS;

		pthread_mutex_unlock(&lock->mutex);
		cairn_sleep_ms(slice);
		pthread_mutex_lock(&lock->mutex);
		left -= slice;
	}
	return lock->stop;
}

/* Does the second check of an early lock. Called with the mutex held, which is released
 * meanwhile. False if the lock must be given up. */
static bool repo_lock_do_settle(struct repo_lock *lock)
{
	struct cairn_err err = {0};
	int rc;

	if (pause_or_stop(lock)) {
		rc = cairn_err_set(&err, CAIRN_ABORTED, "the repository is being closed");
	} else {
		pthread_mutex_unlock(&lock->mutex);
		rc = repo_lock_look_again(lock, true, &err);
		pthread_mutex_lock(&lock->mutex);
	}
	lock->settled = true;
	lock->settled_rc = rc;
	lock->settled_err = err;
	pthread_cond_broadcast(&lock->looked);
	return rc == 0;
}

/* Renews the lock until it is released or lost. A failed renewal is retried each minute. */
static void *repo_lock_keep(void *arg)
{
	struct repo_lock *lock = arg;
	uint64_t pause = lock->renew_ms;

	cairn_scoped_lock(&lock->mutex);
	if (!lock->settled && !repo_lock_do_settle(lock))
		return NULL;
	while (!wait_to_renew(lock, pause) && !lock->lost) {
		struct cairn_err err = {0};
		int rc = repo_lock_renew(lock, &err);

		lock->lost = rc == CAIRN_ABORTED;
		pause = lock->renew_ms;
		if (rc < 0) {
			pause = REPO_LOCK_AGAIN_MS;
			lock->ahead_ms = ahead_ms(); /* react to a jump of the clock only once */
		}
	}
	return NULL;
}

static int repo_lock_start(struct repo_lock *lock, struct cairn_err *err)
{
	int rc = cairn_thread_start(&lock->thread, NULL, NULL, repo_lock_keep, lock);

	if (rc != 0)
		return cairn_err_sys(err, rc, "start the thread that renews the lock");
	lock->running = true;
	return 0;
}

static struct repo_lock *lock_new(struct repo *repo, bool exclusive)
{
	struct repo_lock *lock = cairn_calloc(1, sizeof(*lock));

	if (!lock)
		return NULL;
	lock->repo = repo;
	lock->exclusive = exclusive;
	pthread_mutex_init(&lock->mutex, NULL);
	cairn_cond_init(&lock->wake);
	pthread_cond_init(&lock->looked, NULL);
	return lock;
}

static void lock_free(struct repo_lock *lock)
{
	pthread_cond_destroy(&lock->wake);
	pthread_cond_destroy(&lock->looked);
	pthread_mutex_destroy(&lock->mutex);
	free(lock);
}

/* An operation that frees space may use the reserve for the lock itself. */
static int write_lock_first(struct repo_lock *lock, struct cairn_err *err)
{
	int rc = repo_lock_write_lock(lock->repo, lock->exclusive, &lock->name, err);

	if (rc == CAIRN_NO_SPACE && lock->exclusive &&
	    repo_store_reserve_release(lock->repo->store))
		rc = repo_lock_write_lock(lock->repo, lock->exclusive, &lock->name, err);
	if (rc == CAIRN_NO_SPACE && lock->exclusive && err && err->sys_errno != ENOMEM)
		return cairn_err_wrap(err, "there is no room for a lock, which a prune needs too: "
					   "delete or move away any other file of this disk");
	return rc;
}

/* Checks for other locks, writes ours, waits and checks again. For an early lock, the last
 * two steps happen later. */
static int try_take(struct repo_lock *lock, bool early, struct cairn_err *err)
{
	cairn_cleanup(repo_names_done) struct repo_names locks = {0};
	struct repo *repo = lock->repo;
	int rc = 0;

	if (!repo_survey_use(&repo->opened, REPO_FILE_LOCK, &locks)) {
		repo_survey_done(&repo->opened);
		rc = repo_names_list(repo->store, REPO_FILE_LOCK, &locks, err);
	}
	if (rc == 0)
		rc = repo_lock_conflict(repo, lock->exclusive, NULL, &locks, err);
	if (rc < 0)
		return rc;
	lock->ahead_ms = ahead_ms();
	rc = write_lock_first(lock, err);
	if (rc < 0)
		return rc;
	lock->written_ms = repo_lock_clock_ms();
	if (early)
		return 0;
	cairn_sleep_ms(lock->pause_ms);
	return repo_lock_look_again(lock, false, err);
}

int repo_lock_take(struct repo *repo, const struct repo_options *options, struct repo_lock **ret,
		   struct cairn_err *err)
{
	struct repo_lock *lock = lock_new(repo, options->lock == REPO_LOCK_EXCLUSIVE);
	bool early = options->lock_early && options->lock == REPO_LOCK_SHARED;
	uint64_t start_ms = repo_lock_clock_ms(), pause = 100;
	int rc;

	if (!lock)
		return cairn_err_nomem(err, "a lock");
	lock->renew_ms = options->lock_renew_ms ? options->lock_renew_ms : REPO_LOCK_RENEW_MS;
	lock->pause_ms = options->lock_pause_ms ? options->lock_pause_ms : REPO_LOCK_PAUSE_MS;
	lock->settled = !early;
	while ((rc = try_take(lock, early, err)) == CAIRN_ABORTED &&
	       repo_lock_clock_ms() - start_ms < options->lock_wait_ms &&
	       repo_go_on(repo, NULL) == 0) {
		/* Two processes that collide repeatedly must not stay
		 * synchronised. */
		cairn_sleep_ms(pause + (uint64_t)getpid() % 97);
		pause = pause < 2000 ? pause * 2 : pause;
	}
	if (rc == CAIRN_ABORTED && repo_go_on(repo, NULL) < 0)
		rc = repo_go_on(repo, err);
	if (rc == 0) {
		rc = repo_lock_start(lock, err);
		if (rc < 0)
			repo_store_remove(repo->store, REPO_FILE_LOCK, &lock->name, NULL);
	}
	if (rc < 0) {
		if (lock->exclusive && rc != CAIRN_NO_SPACE)
			(void)repo_store_reserve_keep(repo->store, NULL);
		lock_free(lock);
		return rc;
	}
	*ret = lock;
	return 0;
}

int repo_lock_settle(struct repo_lock *lock, struct cairn_err *err)
{
	cairn_scoped_lock(&lock->mutex);
	while (!lock->settled)
		pthread_cond_wait(&lock->looked, &lock->mutex);
	if (lock->settled_rc < 0 && err)
		*err = lock->settled_err;
	return lock->settled_rc;
}

static void repo_lock_stop(struct repo_lock *lock)
{
	cairn_scoped_lock(&lock->mutex);
	lock->stop = true;
	pthread_cond_signal(&lock->wake);
}

void repo_lock_give_up(struct repo_lock *lock)
{
	bool settled;

	if (!lock)
		return;
	pthread_mutex_lock(&lock->mutex);
	settled = lock->settled;
	pthread_mutex_unlock(&lock->mutex);
	if (!settled)
		repo_lock_stop(lock);
}

int repo_lock_end(struct repo_lock *lock, struct cairn_err *err)
{
	int rc = 0;

	if (!lock)
		return 0;
	if (lock->running) {
		repo_lock_stop(lock);
		pthread_join(lock->thread, NULL);
	}
	repo_store_remove(lock->repo->store, REPO_FILE_LOCK, &lock->name, NULL);
	if (lock->exclusive)
		rc = repo_store_reserve_keep(lock->repo->store, err);
	lock_free(lock);
	return rc;
}

void repo_lock_release(struct repo_lock *lock)
{
	(void)repo_lock_end(lock, NULL);
}

bool repo_lock_exclusive(const struct repo_lock *lock)
{
	return lock->exclusive;
}

int repo_lock_verify(struct repo_lock *lock, const struct repo_names *listed, struct cairn_err *err)
{
	struct repo_id name, now;
	int rc = 0;

	/* The lock may be renewed during the request, which changes its name: then ask again. */
	do {
		pthread_mutex_lock(&lock->mutex);
		name = lock->name;
		if (lock->lost)
			rc = cairn_err_set(err, CAIRN_ABORTED,
					   "the lock on the repository was removed by somebody "
					   "else");
		else if (repo_lock_clock_ms() - lock->written_ms > REPO_LOCK_LOST_MS)
			rc = cairn_err_set(err, CAIRN_ABORTED,
					   "the lock on the repository could not be renewed");
		pthread_mutex_unlock(&lock->mutex);
		if (rc == 0 && !(listed && repo_names_find(listed, &name)))
			rc = repo_lock_there(lock->repo, &name, err);
		pthread_mutex_lock(&lock->mutex);
		now = lock->name;
		pthread_mutex_unlock(&lock->mutex);
		if (repo_id_equal(&name, &now))
			return rc;
		rc = 0;
	} while (true);
}
