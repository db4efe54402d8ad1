/* SPDX-License-Identifier: Apache-2.0 */

#include "http_client/http_client.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#define SET(option, value) (ok = ok && curl_easy_setopt(easy, (option), (value)) == CURLE_OK)

static void http_client_set_up(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

void http_client_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, http_client_set_up);
}

static curl_socket_t http_client_open_socket(void *arg, curlsocktype purpose,
					     struct curl_sockaddr *address)
{
	const struct http_client_settings *settings = arg;
	unsigned dead_ms = settings->dead_peer_s * 1000;
	int fd;

	(void)purpose;
	/* Child processes must not inherit it. */
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (fd < 0)
		return CURL_SOCKET_BAD;
	/* Only TCP has this option; other sockets do not need it. */
	if (dead_ms > 0)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
	return fd;
}

static bool http_client_set_pem(CURL *easy, CURLoption option, const char *pem)
{
	struct curl_blob blob = {.len = pem ? strlen(pem) : 0, .flags = CURL_BLOB_NOCOPY};

	if (!pem)
		return true;
	memcpy(&blob.data, &pem, sizeof(pem)); /* libcurl only reads it */
	return curl_easy_setopt(easy, option, &blob) == CURLE_OK;
}

static bool http_client_set_tls(CURL *easy, const struct http_client_settings *settings)
{
	bool ok = http_client_set_pem(easy, CURLOPT_CAINFO_BLOB, settings->ca_pem) &&
		  http_client_set_pem(easy, CURLOPT_SSLCERT_BLOB, settings->cert_pem) &&
		  http_client_set_pem(easy, CURLOPT_SSLKEY_BLOB, settings->key_pem);

	if (settings->ca_file)
		SET(CURLOPT_CAINFO, settings->ca_file);
	/* libcurl searches its directory of CAs in addition to a bundle that is given. */
	if (settings->ca_file || settings->ca_pem)
		SET(CURLOPT_CAPATH, NULL);
	if (settings->cert_file) {
		SET(CURLOPT_SSLCERT, settings->cert_file);
		SET(CURLOPT_SSLKEY, settings->key_file);
	}
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, settings->insecure ? 0L : 1L);
	SET(CURLOPT_SSL_VERIFYHOST, settings->insecure ? 0L : 2L);
	return ok;
}

static bool http_client_set_times(CURL *easy, const struct http_client_settings *settings)
{
	bool ok = true;

	if (settings->connect_ms > 0)
		SET(CURLOPT_CONNECTTIMEOUT_MS, (long)settings->connect_ms);
	if (settings->timeout_ms > 0)
		SET(CURLOPT_TIMEOUT_MS, (long)settings->timeout_ms);
	if (settings->keepalive_s > 0) {
		SET(CURLOPT_TCP_KEEPALIVE, 1L);
		SET(CURLOPT_TCP_KEEPIDLE, (long)settings->keepalive_s);
	}
	if (settings->probe_s > 0)
		SET(CURLOPT_TCP_KEEPINTVL, (long)settings->probe_s);
	return ok;
}

bool http_client_apply(CURL *easy, const struct http_client_settings *settings)
{
	bool ok = http_client_set_tls(easy, settings) && http_client_set_times(easy, settings);

	SET(CURLOPT_PROTOCOLS_STR, settings->plain ? "http,https" : "https");
	SET(CURLOPT_HTTP_VERSION,
	    (long)(settings->http1 ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS));
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_OPENSOCKETFUNCTION, http_client_open_socket);
	SET(CURLOPT_OPENSOCKETDATA, settings);
	if (settings->proxy)
		SET(CURLOPT_PROXY, settings->proxy);
	return ok;
}

bool http_client_add_field(struct curl_slist **fields, const char *field)
{
	struct curl_slist *grown = curl_slist_append(*fields, field);

	if (grown)
		*fields = grown;
	return grown != NULL;
}

void http_client_fields_free(struct curl_slist *fields)
{
	for (struct curl_slist *at = fields; at; at = at->next)
		explicit_bzero(at->data, strlen(at->data));
	curl_slist_free_all(fields);
}
