/* SPDX-License-Identifier: Apache-2.0 */

/* An exchange as libcurl sees it, on the transport's thread. */
#include "kube/exchange_impl.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/num.h"
#include "kube/config_impl.h"
#include "kube/identity.h"

#define KEEPALIVE_IDLE_S  30L
#define KEEPALIVE_EVERY_S 10L

/* Idle connections are reused whatever their age; libcurl notices if the server has closed
 * one. */
#define IDLE_MAX_S 86400L

static size_t exchange_curl_on_body(char *data, size_t size, size_t n, void *arg)
{
	struct kube_exchange *exchange = arg;

	cairn_scoped_lock(&exchange->lock);
	cairn_buf_add(&exchange->body, data, size * n);
	if (cairn_buf_failed(&exchange->body)) {
		exchange->over_limit = true;
		return 0;
	}
	if (exchange->request.stream)
		pthread_cond_broadcast(&exchange->changed);
	return size * n;
}

/* Parses seconds; a date, which no API server sends, is ignored. */
static void note_retry_after(struct kube_exchange *exchange, const char *line, size_t n)
{
	static const char name[] = "retry-after:";
	char text[24];
	uint64_t seconds;
	size_t at = sizeof(name) - 1, len = 0;

	if (n <= at || strncasecmp(line, name, at) != 0)
		return;
	while (at < n && line[at] == ' ')
		at++;
	while (at < n && line[at] >= '0' && line[at] <= '9' && len < sizeof(text) - 1)
		text[len++] = line[at++];
	text[len] = '\0';
	if (cairn_parse_u64(text, &seconds, NULL) < 0 || seconds > UINT32_MAX)
		return;
	exchange->has_retry_after = true;
	exchange->retry_after_ms = seconds * 1000;
}

static size_t on_field(char *line, size_t size, size_t n, void *arg)
{
	struct kube_exchange *exchange = arg;
	size_t len = size * n;
	long http = 0;

	cairn_scoped_lock(&exchange->lock);
	exchange->fields_len += len;
	if (exchange->fields_len > KUBE_ANSWER_FIELDS_MAX) {
		exchange->over_limit = true;
		return 0;
	}
	if (len >= 5 && strncmp(line, "HTTP/", 5) == 0)
		exchange->has_retry_after = false;
	note_retry_after(exchange, line, len);
	if (len > 2)
		return len;
	curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &http);
	if (http >= 200) {
		exchange->http = (int)http;
		exchange->have_head = true;
		pthread_cond_broadcast(&exchange->changed);
	}
	return len;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	unsigned dead_ms = KUBE_DEAD_PEER_S * 1000;
	int fd;

	(void)arg;
	(void)purpose;
	/* Child processes must not inherit it. */
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (fd < 0)
		return CURL_SOCKET_BAD;
	/* Only TCP has this option; other sockets do not need it. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_ms, sizeof(dead_ms));
	return fd;
}

#define SET(option, value) (ok = ok && curl_easy_setopt(easy, (option), (value)) == CURLE_OK)

static bool set_blob(CURL *easy, CURLoption option, char *pem)
{
	struct curl_blob blob = {.data = pem, .len = pem ? strlen(pem) : 0};

	/* Borrowed: the exchange holds its identity. */
	blob.flags = CURL_BLOB_NOCOPY;
	return !pem || curl_easy_setopt(easy, option, &blob) == CURLE_OK;
}

static bool set_tls(const struct kube_exchange *exchange, CURL *easy)
{
	const struct kube_config *config = exchange->transport->config;
	const struct kube_identity *identity = exchange->identity;
	bool ok = set_blob(easy, CURLOPT_CAINFO_BLOB, identity->ca) &&
		  set_blob(easy, CURLOPT_SSLCERT_BLOB, identity->cert) &&
		  set_blob(easy, CURLOPT_SSLKEY_BLOB, identity->key);

	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_SSL_VERIFYPEER, config->insecure ? 0L : 1L);
	SET(CURLOPT_SSL_VERIFYHOST, config->insecure ? 0L : 2L);
	return ok;
}

static bool exchange_curl_set_connection(const struct kube_exchange *exchange, CURL *easy)
{
	const struct kube_transport *transport = exchange->transport;
	long version = transport->http1 ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS;
	bool ok = true;

	SET(CURLOPT_PROTOCOLS_STR, "https,http");
	SET(CURLOPT_HTTP_VERSION, version);
	SET(CURLOPT_PIPEWAIT, 1L); /* prefer one connection with many streams */
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)KUBE_CONNECT_MS);
	SET(CURLOPT_TCP_KEEPALIVE, 1L);
	SET(CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
	SET(CURLOPT_TCP_KEEPINTVL, KEEPALIVE_EVERY_S);
	SET(CURLOPT_MAXAGE_CONN, IDLE_MAX_S);
	SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
	if (transport->connect_to)
		SET(CURLOPT_CONNECT_TO, transport->connect_to);
	if (transport->config->proxy)
		SET(CURLOPT_PROXY, transport->config->proxy);
	return ok;
}

static bool exchange_curl_set_request(struct kube_exchange *exchange, CURL *easy)
{
	const struct kube_request *request = &exchange->request;
	bool ok = true;

	SET(CURLOPT_URL, exchange->url);
	SET(CURLOPT_HTTPHEADER, exchange->fields);
	SET(CURLOPT_USERAGENT, exchange->transport->user_agent);
	if (request->body) {
		SET(CURLOPT_POSTFIELDS, request->body);
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
	}
	SET(CURLOPT_CUSTOMREQUEST, request->method);
	SET(CURLOPT_WRITEFUNCTION, exchange_curl_on_body);
	SET(CURLOPT_WRITEDATA, exchange);
	SET(CURLOPT_HEADERFUNCTION, on_field);
	SET(CURLOPT_HEADERDATA, exchange);
	SET(CURLOPT_ERRORBUFFER, exchange->error);
	SET(CURLOPT_PRIVATE, exchange);
	return ok;
}

bool kube_exchange_prepare(struct kube_exchange *exchange, CURL *easy)
{
	return exchange_curl_set_request(exchange, easy) &&
	       exchange_curl_set_connection(exchange, easy) && set_tls(exchange, easy);
}

void kube_exchange_finish(struct kube_exchange *exchange, CURLcode result)
{
	struct kube_transport *transport = exchange->transport;
	curl_off_t pretransfer = 0;
	long connects = 0;

	if (exchange->easy) {
		curl_easy_getinfo(exchange->easy, CURLINFO_PRETRANSFER_TIME_T, &pretransfer);
		curl_easy_getinfo(exchange->easy, CURLINFO_NUM_CONNECTS, &connects);
		atomic_fetch_add(&transport->connections, (uint64_t)connects);
	}
	if (exchange->prev)
		exchange->prev->next = exchange->next;
	else
		transport->list = exchange->next;
	if (exchange->next)
		exchange->next->prev = exchange->prev;

	cairn_scoped_lock(&exchange->lock);
	exchange->result = result;
	exchange->unsent = pretransfer == 0;
	exchange->state = KUBE_EXCHANGE_OVER;
	pthread_cond_broadcast(&exchange->changed);
}
