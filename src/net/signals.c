/* SPDX-License-Identifier: Apache-2.0 */

#include "net/signals.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"

void net_signals_block(sigset_t *ret_set)
{
	sigemptyset(ret_set);
	sigaddset(ret_set, SIGTERM);
	sigaddset(ret_set, SIGINT);
	sigaddset(ret_set, SIGHUP);
	sigaddset(ret_set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, ret_set, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int net_signals_wait(const sigset_t *set, uint64_t wait_ms)
{
	uint64_t end = cairn_monotonic_ns() + wait_ms * CAIRN_NS_PER_MS;
	int signo;

	for (;;) {
		uint64_t now = cairn_monotonic_ns(), left = end > now ? end - now : 0;
		struct timespec ts = {.tv_sec = (time_t)(left / CAIRN_NS_PER_SEC),
				      .tv_nsec = (long)(left % CAIRN_NS_PER_SEC)};

		signo = wait_ms == UINT64_MAX ? sigwaitinfo(set, NULL)
					      : sigtimedwait(set, NULL, &ts);
		if (signo > 0)
			return signo;
		if (errno != EINTR)
			return 0;
	}
}
