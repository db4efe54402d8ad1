/* SPDX-License-Identifier: Apache-2.0 */

#include "net/http/http_standard.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "net/http/http_server.h"
#include "net/metrics.h"

#define REASON_MAX 256

static int serve_health(struct net_http *http, void *arg, struct cairn_err *err)
{
	(void)arg;
	net_http_trust(http, NET_SLOT_PROBE);
	return net_http_reply_text(http, 200, "ok", err);
}

static int serve_ready(struct net_http *http, void *arg, struct cairn_err *err)
{
	const struct net_http_standard *standard = arg;
	char reason[REASON_MAX] = "not ready";

	net_http_trust(http, NET_SLOT_PROBE);
	if (!standard->ready || standard->ready(standard->arg, reason, sizeof(reason)))
		return net_http_reply_text(http, 200, "ok", err);
	return net_http_reply_text(http, 503, reason, err);
}

static int serve_metrics(struct net_http *http, void *arg, struct cairn_err *err)
{
	const struct net_http_standard *standard = arg;
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(NET_METRICS_TEXT_MAX);

	net_metrics_render(standard->metrics, &text);
	if (cairn_buf_failed(&text))
		return cairn_err_nomem(err, "metrics");
	return net_http_reply(http, 200, "text/plain; version=0.0.4; charset=utf-8", text.data,
			      text.len, err);
}

int net_http_add_standard(struct net_http_server *server, struct net_http_standard *standard,
			  struct cairn_err *err)
{
	const char *path = standard->metrics_path ? standard->metrics_path : "/metrics";
	const struct net_http_route routes[] = {
		{.method = "GET", .path = "/healthz", .handler = serve_health},
		{.method = "GET", .path = "/readyz", .handler = serve_ready, .arg = standard},
		{.method = "GET", .path = path, .handler = serve_metrics, .arg = standard},
		{.method = "GET",
		 .path = standard->other_ready_path,
		 .handler = serve_ready,
		 .arg = standard},
	};
	int rc = net_http_server_add(server, routes, standard->metrics ? 3 : 2, err);

	if (rc == 0 && standard->other_ready_path)
		rc = net_http_server_add(server, &routes[3], 1, err);
	return rc;
}

int net_http_serve_standard(const struct net_http_standard_server *how,
			    struct net_http_standard *standard, struct net_http_server **ret,
			    uint16_t *ret_port, struct cairn_err *err)
{
	const struct net_http_options options = {.name = how->name};
	cairn_cleanup(net_http_server_freep) struct net_http_server *server = NULL;
	int rc = net_http_server_new(&options, &server, err);

	if (!rc)
		rc = net_http_add_standard(server, standard, err);
	if (!rc && how->more)
		rc = net_http_server_add(server, how->more, 1, err);
	if (!rc)
		rc = net_http_server_listen(server, how->listen, how->tls, ret_port, err);
	if (!rc)
		rc = net_http_server_start(server, err);
	if (!rc)
		*ret = cairn_take(server);
	return rc;
}
