/* SPDX-License-Identifier: Apache-2.0 */

#include "net/tls/tls_watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/thread.h"
#include "net/tls/tls_settings.h"

#define SIGNS                                                                                   \
	(IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | \
	 IN_ONLYDIR)

struct net_tls_watch {
	struct net_tls *tls;
	struct net_tls_watch_options options;
	pthread_t thread;
	int stop_fd;
	int inotify_fd;
	char last_failure[CAIRN_ERR_TEXT_MAX]; /* "" after a success */
};

/* Adding a directory that is already watched changes nothing; a directory that was replaced
 * gets a new watch here. */
static void watch_directories(struct net_tls_watch *watch)
{
	const char *dirs[3];
	size_t n = net_tls_directories(watch->tls, dirs);

	for (size_t i = 0; i < n; i++)
		(void)inotify_add_watch(watch->inotify_fd, dirs[i], SIGNS);
}

static void tls_watch_drain(int fd)
{
	char events[4096];

	while (read(fd, events, sizeof(events)) > 0)
		continue;
}

/* Waits for a change: 1 if there is one, 0 on a timeout, -1 if the watcher shall end. */
static int wait_sign(struct net_tls_watch *watch, uint64_t ms)
{
	struct pollfd fds[2] = {{.fd = watch->stop_fd, .events = POLLIN},
				{.fd = watch->inotify_fd, .events = POLLIN}};
	int n = poll(fds, 2, ms > INT32_MAX ? INT32_MAX : (int)ms);

	if (fds[0].revents)
		return -1;
	if (n <= 0)
		return 0;
	tls_watch_drain(watch->inotify_fd);
	return 1;
}

static void tls_watch_reload(struct net_tls_watch *watch)
{
	struct cairn_err err = {0};
	int rc = net_tls_reload(watch->tls, &err);

	if (rc == 0 || (rc < 0 && strcmp(err.msg, watch->last_failure) == 0))
		return;
	memcpy(watch->last_failure, err.msg, sizeof(watch->last_failure));
	if (watch->options.changed)
		watch->options.changed(watch->options.arg, rc < 0 ? &err : NULL);
}

static void *tls_watch_run(void *arg)
{
	struct net_tls_watch *watch = arg;
	int sign = 1; /* files may have changed since they were read */

	while (sign >= 0) {
		while (sign > 0)
			sign = wait_sign(watch, watch->options.settle_ms);
		if (sign < 0)
			break;
		watch_directories(watch);
		tls_watch_reload(watch);
		sign = wait_sign(watch, watch->options.look_ms);
	}
	return NULL;
}

static void tls_watch_release(struct net_tls_watch *watch)
{
	cairn_closep(&watch->stop_fd);
	cairn_closep(&watch->inotify_fd);
	free(watch);
}

static int tls_watch_start_thread(struct net_tls_watch *watch, struct cairn_err *err)
{
	int rc = cairn_thread_start(&watch->thread, NULL, NULL, tls_watch_run, watch);

	return rc ? cairn_err_sys(err, rc, "start TLS watch") : 0;
}

int net_tls_watch_new(struct net_tls *tls, const struct net_tls_watch_options *options,
		      struct net_tls_watch **ret, struct cairn_err *err)
{
	struct net_tls_watch *watch = cairn_calloc(1, sizeof(*watch));
	int rc = 0;

	if (!watch)
		return cairn_err_nomem(err, "TLS watch");
	watch->tls = tls;
	watch->options = *options;
	if (!watch->options.settle_ms)
		watch->options.settle_ms = 100;
	if (!watch->options.look_ms)
		watch->options.look_ms = 60000;
	watch->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watch->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (watch->stop_fd < 0 || watch->inotify_fd < 0)
		rc = cairn_err_sys(err, errno, "watch TLS files");
	else
		watch_directories(watch);
	if (rc == 0)
		rc = tls_watch_start_thread(watch, err);
	if (rc < 0) {
		tls_watch_release(watch);
		return rc;
	}
	*ret = watch;
	return 0;
}

void net_tls_watch_free(struct net_tls_watch *watch)
{
	if (!watch)
		return;
	eventfd_write(watch->stop_fd, 1);
	pthread_join(watch->thread, NULL);
	tls_watch_release(watch);
}
