/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps TLS settings up to date with their files.
 *
 * Kubernetes replaces a mounted Secret by swapping a symbolic link next to the
 * files, so the directories are watched, not the files. When there was no
 * further change for a moment, the files are read; an invalid pair is reported
 * and the one in use stays. Since a watch can be lost (a replaced directory, a
 * network filesystem), the files are also checked periodically without an
 * event.
 *
 * It has a thread of its own, because reading files blocks.
 */
#ifndef CAIRN_NET_TLS_WATCH_H
#define CAIRN_NET_TLS_WATCH_H

#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct net_tls;
struct net_tls_watch;

struct net_tls_watch_options {
	uint64_t settle_ms; /* quiet time before files are read; 0 is 100 ms */
	uint64_t look_ms;   /* interval of checks without an event; 0 is 60 s */

	/* Called on the watch's thread after each change: `failure` is NULL when the
	 * new files are in use, else says why the old ones stay. The same failure is
	 * reported once. May be NULL. */
	void (*changed)(void *arg, const struct cairn_err *failure);
	void *arg;
};

/* `tls` must outlive the watch. */
int net_tls_watch_new(struct net_tls *tls, const struct net_tls_watch_options *options,
		      struct net_tls_watch **ret, struct cairn_err *err);

/* Ends the thread. Accepts NULL. */
void net_tls_watch_free(struct net_tls_watch *watch);
CAIRN_DEFINE_CLEANUP(struct net_tls_watch, net_tls_watch_free);

#endif
