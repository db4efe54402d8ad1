/* SPDX-License-Identifier: Apache-2.0 */

/* Health and metrics of a sidecar over HTTP, available before anything else works. If the
 * port is in use, binding is retried; callers are served meanwhile. */
#ifndef CAIRN_SIDECAR_HTTP_H
#define CAIRN_SIDECAR_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct net_metrics;
struct net_tls;
struct sidecar_http;

struct sidecar_http_options {
	const char *listen;          /* "host:port" */
	struct net_tls *tls;         /* NULL: plain */
	struct net_metrics *metrics; /* NULL: none */
	const char *metrics_path;
	bool (*ready)(void *arg, char *why, size_t cap);
	/* Called every few seconds on the HTTP thread, for periodic work. */
	void (*tick)(void *arg);
	void *arg;
};

int sidecar_http_new(const struct sidecar_http_options *options, struct sidecar_http **ret,
		     struct cairn_err *err);

/* 0 if it is not listening. */
uint16_t sidecar_http_listens(struct sidecar_http *http);

void sidecar_http_free(struct sidecar_http *http); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_http, sidecar_http_free);

#endif
