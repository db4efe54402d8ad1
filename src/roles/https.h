/* SPDX-License-Identifier: Apache-2.0 */

/* What roles of a cluster that serve HTTPS have in common: the client of the API
 * server, a server whose certificate is read again when it changes, another for
 * metrics and probes, and how they end. */
#ifndef CAIRN_ROLES_HTTPS_H
#define CAIRN_ROLES_HTTPS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/http/http_standard.h"

struct cairn_err;
struct kube_client;
struct net_http_server;
struct net_metric;
struct net_metrics;
struct net_tls;
struct net_tls_options;
struct net_tls_watch;

/* `kubeconfig` may be NULL: it is searched for. `qps` as kube_client_options. */
int role_connect(const char *kubeconfig, const char *user_agent, double qps,
		 struct kube_client **ret, struct cairn_err *err);

/* The same with a connection for each call, so that an answer that is read slowly holds up
 * its sender and fills no memory here. */
int role_connect_streams(const char *kubeconfig, const char *user_agent, double qps,
			 struct kube_client **ret, struct cairn_err *err);

/* With those of the process and the build. */
int role_metrics_new(struct net_metrics **ret, struct cairn_err *err);

struct role_https {
	struct net_tls *tls;
	struct net_tls_watch *watch;
	struct net_http_server *server; /* add routes before it starts */
	struct net_metric *expiry;
};

/* Reports the end of the certificate as a metric: stop what renders `metrics` before
 * role_https_done(). */
int role_https_new(struct role_https *https, const struct net_tls_options *options,
		   struct net_metrics *metrics, struct cairn_err *err);
int role_https_start(struct role_https *https, const char *listen, struct cairn_err *err);
void role_https_done(struct role_https *https); /* accepts a zeroed one */

struct role_health {
	struct net_http_server *server;
	struct net_http_standard standard;
};

/* Nothing when `address` is NULL. Everything is borrowed. */
int role_health_start(struct role_health *health, const char *address,
		      bool (*ready)(void *arg, char *reason, size_t cap), void *arg,
		      struct net_metrics *metrics, struct cairn_err *err);
void role_health_done(struct role_health *health);

/* Waits for one of the signals, then drains the server, which may be NULL. */
void role_serve_until_told(const sigset_t *signals, struct net_http_server *server,
			   uint64_t drain_ms);

#endif
