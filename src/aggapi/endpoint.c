/* SPDX-License-Identifier: Apache-2.0 */

#include "aggapi/endpoint.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"

#define PORT_DEFAULT 443
#define BUNDLE_MAX   (1U << 20)

static int read_service(const json_t *service, char **ret, struct cairn_err *err)
{
	const char *ns = kube_str(service, "namespace"), *name = kube_str(service, "name");
	const char *path = kube_str(service, "path");
	int64_t port = PORT_DEFAULT;

	(void)kube_i64(service, &port, "port");
	if (!ns || !*ns || !name || !*name || port < 1 || port > 65535)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "its service needs a namespace, a name and a port");
	*ret = cairn_printf("https://%s.%s.svc:%" PRId64 "%s", name, ns, port, path ? path : "");
	return *ret ? 0 : cairn_err_nomem(err, "endpoint");
}

static int read_bundle(const json_t *config, char **ret, struct cairn_err *err)
{
	const char *text = kube_str(config, "caBundle");
	size_t n = text ? strlen(text) : 0;
	int len;

	if (n == 0)
		return 0;
	if (n > BUNDLE_MAX)
		return cairn_err_set(err, CAIRN_PRECONDITION, "its caBundle is too large");
	*ret = cairn_calloc(n + 1, 1);
	if (!*ret)
		return cairn_err_nomem(err, "endpoint");
	len = EVP_DecodeBlock((unsigned char *)*ret, (const unsigned char *)text, (int)n);
	if (len < 0 || !strstr(*ret, "BEGIN CERTIFICATE"))
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "its caBundle is no base64 of PEM certificates");
	return 0;
}

int aggapi_endpoint_read(const json_t *discovery, struct aggapi_endpoint *ret,
			 struct cairn_err *err)
{
	const json_t *config = kube_at(discovery, "spec", "clientConfig");
	const char *url = kube_str(config, "url");
	const json_t *service = kube_at(config, "service");
	size_t n;
	int rc;

	*ret = (struct aggapi_endpoint){0};
	if (!url == !service)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "it must have exactly one of url and service");
	if (url && strncmp(url, "https://", 8) != 0)
		return cairn_err_set(err, CAIRN_PRECONDITION, "its url must begin with https://");
	if (url) {
		ret->url = cairn_strdup(url);
		rc = ret->url ? 0 : cairn_err_nomem(err, "endpoint");
	} else {
		rc = read_service(service, &ret->url, err);
	}
	if (!rc)
		rc = read_bundle(config, &ret->ca_pem, err);
	if (rc) {
		aggapi_endpoint_done(ret);
		return rc;
	}
	n = strlen(ret->url);
	while (n > 0 && ret->url[n - 1] == '/')
		ret->url[--n] = '\0';
	return 0;
}

void aggapi_endpoint_done(struct aggapi_endpoint *endpoint)
{
	free(endpoint->url);
	free(endpoint->ca_pem);
	*endpoint = (struct aggapi_endpoint){0};
}
