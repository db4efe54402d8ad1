/* SPDX-License-Identifier: Apache-2.0 */

/* The routes that every role serves: /healthz, /readyz and /metrics. */
#ifndef CAIRN_NET_HTTP_STANDARD_H
#define CAIRN_NET_HTTP_STANDARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct net_http_route;
struct net_http_server;
struct net_metrics;
struct net_tls;

/* Borrowed for the server's life. */
struct net_http_standard {
	/* Whether the role can do its work; if not, writes a short reason. Called
	 * on any thread. NULL: always ready. */
	bool (*ready)(void *arg, char *reason, size_t cap);
	void *arg;
	struct net_metrics *metrics;  /* NULL: no metrics */
	const char *metrics_path;     /* NULL is "/metrics" */
	const char *other_ready_path; /* one other path that answers like /readyz; may be NULL */
};

/* A server that has only these routes, and `more` if it is not NULL. `tls` NULL:
 * plain HTTP. `ret_port` may be NULL. */
struct net_http_standard_server {
	const char *name; /* of its threads */
	const char *listen;
	struct net_tls *tls;
	const struct net_http_route *more;
};

int net_http_serve_standard(const struct net_http_standard_server *how,
			    struct net_http_standard *standard, struct net_http_server **ret,
			    uint16_t *ret_port, struct cairn_err *err);

/* /healthz answers 200 "ok" while requests are served at all; /readyz answers
 * 200 "ok", or 503 with the reason. */
int net_http_add_standard(struct net_http_server *server, struct net_http_standard *standard,
			  struct cairn_err *err);

#endif
