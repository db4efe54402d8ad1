/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/team.h"

#include <pthread.h>
#include <sched.h>

#include "backup/progress.h"
#include "base/crew.h"
#include "base/err.h"
#include "base/lock.h"

struct running {
	const struct team *team;
	pthread_mutex_t lock; /* guards what follows, and calls of `take` */
	uint64_t done;
	int rc;
	struct cairn_err err;
};

unsigned backup_team_size(void)
{
	cpu_set_t set;
	int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

	if (n < 1)
		n = 1;
	return (unsigned)n < TEAM_MAX ? (unsigned)n : TEAM_MAX;
}

static void team_fail(struct running *running, int rc, const struct cairn_err *err)
{
	cairn_scoped_lock(&running->lock);
	if (running->rc)
		return;
	running->rc = rc;
	running->err = *err;
}

/* Counts the finished task and takes the next. */
static bool team_next(struct running *running, struct team_task *task)
{
	const struct team *team = running->team;

	cairn_scoped_lock(&running->lock);
	running->done += task->bytes;
	task->bytes = 0;
	if (running->rc)
		return false;
	backup_report(team->progress, team->step, running->done, team->total);
	if (backup_cancelled(team->progress)) {
		running->rc = cairn_err_set(&running->err, CAIRN_CANCELLED, "interrupted");
		return false;
	}
	return team->take(team->arg, task);
}

static void *team_do_run(void *arg)
{
	struct running *running = arg;
	const struct team *team = running->team;
	struct cairn_err err = {0};
	struct team_task task = {0};
	void *worker = NULL;
	int rc = team->start ? team->start(team->arg, &worker, &err) : 0;

	while (!rc && team_next(running, &task))
		rc = team->work(team->arg, worker, &task, &err);
	if (rc)
		team_fail(running, rc, &err);
	if (team->stop && worker)
		team->stop(team->arg, worker);
	return NULL;
}

int backup_team_run(const struct team *team, unsigned threads, struct cairn_err *err)
{
	struct running running = {.team = team, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct cairn_crew others = {0};

	if (threads == 0)
		threads = backup_team_size();
	/* The calling thread works too. If fewer threads can be started, these do all of
	 * the work. */
	cairn_crew_start(&others, threads - 1, team_do_run, &running);
	team_do_run(&running);
	cairn_crew_join(&others);
	if (running.rc && err)
		*err = running.err;
	return running.rc;
}
