/* SPDX-License-Identifier: Apache-2.0 */

#include "base/thread_group.h"

#include "base/thread.h"

unsigned cairn_thread_group_start(struct cairn_thread_group *group, unsigned n,
				  void *(*run)(void *arg), void *arg)
{
	group->n = 0;
	while (group->n < n && group->n < CAIRN_THREAD_GROUP_MAX &&
	       cairn_thread_start(&group->threads[group->n], NULL, NULL, run, arg) == 0)
		group->n++;
	return group->n;
}

void cairn_thread_group_join(struct cairn_thread_group *group)
{
	for (unsigned i = 0; i < group->n; i++)
		pthread_join(group->threads[i], NULL);
	group->n = 0;
}
