/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/driver_endpoint.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "http_client/http_call.h"
#include "http_client/http_client.h"
#include "kube/object.h"

#define PORT_DEFAULT 443

/* The parts of a URL are joined, so each must be what it claims to be: a path such as
 * "@other.example" would lead to another host. */
static bool endpoint_is_label(const char *text)
{
	return text && text[0] &&
	       text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")] == '\0';
}

static int read_service(const json_t *service, char **ret, struct cairn_err *err)
{
	const char *ns = kube_str(service, "namespace");
	const char *name = kube_str(service, "name");
	const char *path = kube_str(service, "path");
	int n = path ? (int)strlen(path) : 0;
	int64_t port = PORT_DEFAULT;

	(void)kube_i64(service, &port, "port");
	if (!endpoint_is_label(ns) || !endpoint_is_label(name))
		return cairn_err_set(err, CAIRN_INVALID,
				     "the service needs a namespace and a name");
	if (n > 0 && path[0] != '/')
		return cairn_err_set(err, CAIRN_INVALID, "the service's path must begin with '/'");
	if (port < 1 || port > UINT16_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the service's port must be 1 to 65535");
	while (n > 0 && path[n - 1] == '/')
		n--;
	*ret = cairn_printf("https://%s.%s.svc:%" PRId64 "%.*s", name, ns, port, n,
			    path ? path : "");
	return *ret ? 0 : cairn_err_nomem(err, "endpoint");
}

/* Counts the certificates, and those that have not expired. */
static size_t count_certificates(const char *pem, size_t n, size_t *ret_good)
{
	BIO *bio = BIO_new_mem_buf(pem, (int)n);
	size_t count = 0;

	*ret_good = 0;
	for (size_t left = n; bio && left > 0; left--) {
		X509 *one = PEM_read_bio_X509(bio, NULL, NULL, NULL);

		if (!one)
			break;
		count++;
		*ret_good += X509_cmp_current_time(X509_get0_notAfter(one)) > 0;
		X509_free(one);
	}
	BIO_free(bio);
	return count;
}

static int read_bundle(const char *text, char **ret, struct cairn_err *err)
{
	size_t n = strlen(text);
	size_t good = 0;

	if (n > KUBE_ENDPOINT_BUNDLE_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "the caBundle is too large");
	*ret = cairn_base64_text(text, n);
	if (!*ret || count_certificates(*ret, strlen(*ret), &good) == 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the caBundle holds no certificate in PEM form");
	if (good == 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the caBundle's certificates have all expired");
	return 0;
}

static int driver_endpoint_read_address(const json_t *config, char **ret, struct cairn_err *err)
{
	const json_t *service = kube_at(config, "service");
	const char *url = kube_str(config, "url");
	size_t n;

	if (!url == !service)
		return cairn_err_set(err, CAIRN_INVALID,
				     "exactly one of url and service must be given");
	if (service)
		return read_service(service, ret, err);
	if (strncmp(url, "https://", 8) != 0)
		return cairn_err_set(err, CAIRN_INVALID, "the url must begin with https://");
	for (n = strlen(url); url[n - 1] == '/' && n > 8; n--)
		;
	*ret = cairn_strndup(url, n);
	return *ret ? 0 : cairn_err_nomem(err, "endpoint");
}

int kube_driver_endpoint_read(const json_t *discovery, struct kube_driver_endpoint *ret,
			      struct cairn_err *err)
{
	const json_t *config = kube_at(discovery, "spec", "clientConfig");
	const char *bundle = kube_str(config, "caBundle");
	int rc;

	*ret = (struct kube_driver_endpoint){0};
	rc = driver_endpoint_read_address(config, &ret->url, err);
	if (!rc && bundle && bundle[0])
		rc = read_bundle(bundle, &ret->ca_pem, err);
	if (rc)
		kube_driver_endpoint_done(ret);
	return rc;
}

void kube_driver_endpoint_done(struct kube_driver_endpoint *endpoint)
{
	free(endpoint->url);
	free(endpoint->ca_pem);
	*endpoint = (struct kube_driver_endpoint){0};
}

int kube_driver_endpoint_probe(const struct kube_driver_endpoint *endpoint, uint64_t timeout_ms,
			       struct cairn_err *err)
{
	struct http_client_settings settings = {.proxy = HTTP_CLIENT_NO_PROXY,
						.ca_pem = endpoint->ca_pem,
						.timeout_ms = timeout_ms};
	struct http_client_call call = {.url = endpoint->url};
	long status;
	int rc = http_client_call(NULL, &settings, &call, &status, err);

	/* Only the fact that there was an answer counts. */
	return rc == CAIRN_DEADLINE ? cairn_err_recode(err, CAIRN_UNAVAILABLE) : rc;
}
