/* SPDX-License-Identifier: Apache-2.0 */

/* An exchange as libcurl sees it, on the transport's thread. */
#include "kube/exchange_impl.h"

#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/lock.h"
#include "base/num.h"
#include "kube/config_impl.h"
#include "kube/identity.h"

#define KEEPALIVE_IDLE_S  30
#define KEEPALIVE_EVERY_S 10

/* Idle connections are reused whatever their age; libcurl notices if the server has closed
 * one. */
#define IDLE_MAX_S 86400L

static size_t exchange_curl_on_body(char *data, size_t size, size_t n, void *arg)
{
	struct kube_exchange *exchange = arg;

	cairn_scoped_lock(&exchange->lock);
	if (exchange->request.pause_at > 0 && exchange->body.len >= exchange->request.pause_at) {
		exchange->paused = true;
		return CURL_WRITEFUNC_PAUSE;
	}
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

/* Keeps a field that the caller passes on; false when memory is short. */
static bool exchange_keep_field(struct kube_exchange *exchange, const char *line, size_t n)
{
	static const char *const names[] = {"content-type:", "warning:"};
	char text[4096];

	while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == '\n'))
		n--;
	if (n >= sizeof(text))
		return true;
	memcpy(text, line, n);
	text[n] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct curl_slist *grown;

		if (strncasecmp(text, names[i], strlen(names[i])) != 0)
			continue;
		grown = curl_slist_append(exchange->kept, text);
		if (!grown)
			return false;
		exchange->kept = grown;
	}
	return true;
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
	if (len >= 5 && strncmp(line, "HTTP/", 5) == 0) {
		exchange->has_retry_after = false;
		curl_slist_free_all(exchange->kept);
		exchange->kept = NULL;
	}
	note_retry_after(exchange, line, len);
	if (exchange->request.keep_fields && !exchange->have_head &&
	    !exchange_keep_field(exchange, line, len))
		return 0;
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

#define SET(option, value) (ok = ok && curl_easy_setopt(easy, (option), (value)) == CURLE_OK)

static bool exchange_curl_set_connection(struct kube_exchange *exchange, CURL *easy)
{
	const struct kube_transport *transport = exchange->transport;
	const struct kube_identity *identity = exchange->identity;
	bool ok;

	exchange->settings = (struct http_client_settings){.plain = true,
							   .http1 = transport->http1,
							   .insecure = transport->config->insecure,
							   .proxy = transport->config->proxy,
							   .ca_pem = identity->ca,
							   .cert_pem = identity->cert,
							   .key_pem = identity->key,
							   .connect_ms = KUBE_CONNECT_MS,
							   .dead_peer_s = KUBE_DEAD_PEER_S,
							   .keepalive_s = KEEPALIVE_IDLE_S,
							   .probe_s = KEEPALIVE_EVERY_S};
	ok = http_client_apply(easy, &exchange->settings);
	SET(CURLOPT_PIPEWAIT, 1L); /* prefer one connection with many streams */
	SET(CURLOPT_MAXAGE_CONN, IDLE_MAX_S);
	if (transport->connect_to)
		SET(CURLOPT_CONNECT_TO, transport->connect_to);
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
	       exchange_curl_set_connection(exchange, easy);
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
