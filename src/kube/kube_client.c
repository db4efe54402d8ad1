/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/kube_client.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/client_impl.h"
#include "kube/config_impl.h"
#include "kube/credentials.h"
#include "kube/global_init.h"
#include "kube/kube_config.h"
#include "kube/transport.h"

#define DEFAULT_QPS        50.0
#define DEFAULT_TIMEOUT_MS 30000

static int kube_client_fill(struct kube_client *client, const struct kube_config *config,
			    const struct kube_client_options *options, struct cairn_err *err)
{
	struct kube_transport_options how = {.http1 = options->http1};
	double qps = options->qps == 0 ? DEFAULT_QPS : options->qps;
	unsigned burst = options->burst;
	int rc;

	if (burst == 0 && qps > 0)
		burst = qps * 2 < 1 ? 1 : qps * 2 > 1e6 ? 1000000 : (unsigned)(qps * 2);
	kube_throttle_init(&client->throttle, qps, burst);
	client->timeout_ms = options->timeout_ms ? options->timeout_ms : DEFAULT_TIMEOUT_MS;
	client->config = kube_config_ref(config);
	client->user_agent = cairn_strdup(options->user_agent ? options->user_agent : "cairn");
	if (!client->user_agent)
		return cairn_err_nomem(err, "client");
	rc = kube_credentials_new(client->config, &client->credentials, err);
	if (rc)
		return rc;
	how.user_agent = client->user_agent;
	return kube_transport_new(client->config, &how, &client->transport, err);
}

int kube_client_new(const struct kube_config *config, const struct kube_client_options *options,
		    struct kube_client **ret, struct cairn_err *err)
{
	static const struct kube_client_options defaults;
	struct kube_client *client;
	int rc;

	kube_global_init();
	client = cairn_calloc(1, sizeof(*client));
	if (!client)
		return cairn_err_nomem(err, "client");
	rc = kube_client_fill(client, config, options ? options : &defaults, err);
	if (rc) {
		kube_client_free(client);
		return rc;
	}
	*ret = client;
	return 0;
}

void kube_client_shutdown(struct kube_client *client)
{
	atomic_store(&client->shutdown, true);
	kube_throttle_wake(&client->throttle);
	kube_transport_shutdown(client->transport);
}

void kube_client_free(struct kube_client *client)
{
	if (!client)
		return;
	kube_transport_free(client->transport);
	kube_credentials_free(client->credentials);
	kube_config_free(client->config);
	kube_throttle_done(&client->throttle);
	free(client->user_agent);
	free(client);
}

const char *kube_client_namespace(const struct kube_client *client)
{
	return kube_config_namespace(client->config);
}

void kube_client_stats(struct kube_client *client, struct kube_client_stats *ret)
{
	ret->requests = atomic_load(&client->requests);
	ret->retries = atomic_load(&client->retries);
	ret->connections = kube_transport_connections(client->transport);
	ret->limited_ns = atomic_load(&client->limited_ns);
}

void kube_query_add(struct cairn_buf *path, const char *name, const char *value)
{
	bool first = true;

	if (!value || !value[0])
		return;
	for (size_t i = 0; i < path->len; i++)
		first = first && path->data[i] != '?';
	cairn_buf_addc(path, first ? '?' : '&');
	cairn_buf_adds(path, name);
	cairn_buf_addc(path, '=');
	kube_url_escape(path, value);
}
