/* SPDX-License-Identifier: Apache-2.0 */

/* The routes that every role serves: /healthz, /readyz and /metrics. */
#ifndef CAIRN_NET_HTTP_STANDARD_H
#define CAIRN_NET_HTTP_STANDARD_H

#include <stdbool.h>
#include <stddef.h>

struct cairn_err;
struct net_http_server;
struct net_metrics;

/* Borrowed for the server's life. */
struct net_http_standard {
	/* Says whether the role can do its work; when not, writes a short reason.
	 * Called on any thread. NULL is always ready. */
	bool (*ready)(void *arg, char *reason, size_t cap);
	void *arg;
	struct net_metrics *metrics;  /* NULL: no metrics */
	const char *metrics_path;     /* NULL is "/metrics" */
	const char *other_ready_path; /* one other path that answers like /readyz; may be NULL */
};

/* /healthz answers 200 "ok" as long as requests are served at all; /readyz
 * 200 "ok" or 503 with the reason. */
int net_http_add_standard(struct net_http_server *server, struct net_http_standard *standard,
			  struct cairn_err *err);

#endif
