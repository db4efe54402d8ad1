/* SPDX-License-Identifier: Apache-2.0 */

#include "base/crew.h"

#include <signal.h>

unsigned cairn_crew_start(struct cairn_crew *crew, unsigned n, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;

	crew->n = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (crew->n < n && crew->n < CAIRN_CREW_MAX &&
	       pthread_create(&crew->threads[crew->n], NULL, run, arg) == 0)
		crew->n++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return crew->n;
}

void cairn_crew_join(struct cairn_crew *crew)
{
	for (unsigned i = 0; i < crew->n; i++)
		pthread_join(crew->threads[i], NULL);
	crew->n = 0;
}
