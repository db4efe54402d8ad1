/* SPDX-License-Identifier: Apache-2.0 */

#include "base/thread_group.h"

#include <signal.h>

unsigned cairn_thread_group_start(struct cairn_thread_group *group, unsigned n,
				  void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;

	group->n = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (group->n < n && group->n < CAIRN_THREAD_GROUP_MAX &&
	       pthread_create(&group->threads[group->n], NULL, run, arg) == 0)
		group->n++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return group->n;
}

void cairn_thread_group_join(struct cairn_thread_group *group)
{
	for (unsigned i = 0; i < group->n; i++)
		pthread_join(group->threads[i], NULL);
	group->n = 0;
}
