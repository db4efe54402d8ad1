/* SPDX-License-Identifier: Apache-2.0 */

#include "base/thread.h"

#include <signal.h>
#include <stddef.h>

int cairn_thread_start(pthread_t *ret, const pthread_attr_t *attr, const char *name,
		       void *(*run)(void *arg), void *arg)
{
	sigset_t all, before;
	int rc;

	/* The thread inherits the mask: a mask that it sets itself would come too late for a
	 * signal that arrives first. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(ret, attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0 && name)
		pthread_setname_np(*ret, name);
	return rc;
}
