/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/remote.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "kube/driver_endpoint.h"
#include "kube/global_init.h"
#include "kube/kube_wait.h"
#include "kube/object.h"
#include "older/aggapi/aggapi_wire.h"
#include "older/aggapi/tokens.h"

#define HANDLES_KEPT 16 /* each with its open connections */

struct aggapi_remote {
	struct aggapi_tokens *tokens;
	char *cert_file, *key_file;
	uint64_t timeout_ms;
	pthread_mutex_t lock;
	CURL *idle[HANDLES_KEPT];
	size_t n_idle;
};

/* One call. */
struct exchange {
	struct cairn_buf body;
	const struct kube_wait *wait;
	int ended; /* code of the failed check */
	char text[CURL_ERROR_SIZE];
};

static int remote_copy(const char *text, char **ret, struct cairn_err *err)
{
	*ret = text ? cairn_strdup(text) : NULL;
	return text && !*ret ? cairn_err_nomem(err, "text") : 0;
}

int aggapi_remote_new(const struct aggapi_remote_options *options, struct aggapi_remote **ret,
		      struct cairn_err *err)
{
	cairn_cleanup(aggapi_remote_freep) struct aggapi_remote *remote =
		cairn_calloc(1, sizeof(*remote));
	int rc;

	if (!remote)
		return cairn_err_nomem(err, "client");
	kube_global_init();
	pthread_mutex_init(&remote->lock, NULL);
	remote->timeout_ms = options->timeout_ms;
	remote->tokens = options->tokens;
	rc = remote_copy(options->cert_file, &remote->cert_file, err);
	if (!rc)
		rc = remote_copy(options->key_file, &remote->key_file, err);
	if (!rc)
		*ret = cairn_take(remote);
	return rc;
}

void aggapi_remote_free(struct aggapi_remote *remote)
{
	while (remote->n_idle > 0)
		curl_easy_cleanup(remote->idle[--remote->n_idle]);
	pthread_mutex_destroy(&remote->lock);
	free(remote->cert_file);
	free(remote->key_file);
	free(remote);
}

static CURL *remote_take_handle(struct aggapi_remote *remote)
{
	cairn_scoped_lock(&remote->lock);

	return remote->n_idle > 0 ? remote->idle[--remote->n_idle] : curl_easy_init();
}

static void remote_give_handle(struct aggapi_remote *remote, CURL *curl)
{
	curl_easy_reset(curl);
	cairn_scoped_lock(&remote->lock);
	if (remote->n_idle < HANDLES_KEPT)
		remote->idle[remote->n_idle++] = curl;
	else
		curl_easy_cleanup(curl);
}

static size_t remote_on_body(char *data, size_t size, size_t n, void *arg)
{
	struct exchange *x = arg;

	cairn_buf_add(&x->body, data, size * n);
	return cairn_buf_failed(&x->body) ? 0 : size * n;
}

static int on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct exchange *x = arg;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	x->ended = x->wait->check ? x->wait->check(x->wait->arg) : 0;
	return x->ended != 0;
}

static struct curl_slist *add_line(struct curl_slist *list, const char *line, bool *ok)
{
	struct curl_slist *more = curl_slist_append(list, line);

	*ok = *ok && more;
	return more ? more : list;
}

/* Wipes and frees a secret. */
static void remote_wipe(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
}

static int remote_make_fields(const struct aggapi_remote *remote, const char *driver,
			      const struct kube_wait *wait, struct curl_slist **ret,
			      struct cairn_err *err)
{
	cairn_cleanup(remote_wipe) char *token = NULL;
	cairn_cleanup(remote_wipe) char *line = NULL;
	bool ok = true;
	int rc = aggapi_tokens_get(remote->tokens, driver, wait, &token, err);

	if (rc)
		return rc;
	*ret = add_line(*ret, "Content-Type: application/json", &ok);
	*ret = add_line(*ret, "Expect:", &ok);
	if (token[0]) {
		line = cairn_printf("Authorization: Bearer %s", token);
		ok = ok && line;
		if (line)
			*ret = add_line(*ret, line, &ok);
	}
	return ok ? 0 : cairn_err_nomem(err, "request");
}

static void remote_set_trust(CURL *curl, const struct aggapi_remote *remote,
			     const struct kube_driver_endpoint *endpoint)
{
	if (endpoint->ca_pem) {
		struct curl_blob blob = {.data = endpoint->ca_pem,
					 .len = strlen(endpoint->ca_pem),
					 .flags = CURL_BLOB_COPY};

		curl_easy_setopt(curl, CURLOPT_CAINFO_BLOB, &blob);
	}
	if (remote->cert_file) {
		curl_easy_setopt(curl, CURLOPT_SSLCERT, remote->cert_file);
		curl_easy_setopt(curl, CURLOPT_SSLKEY, remote->key_file);
	}
	curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
}

static int remote_failed(CURLcode code, const struct exchange *x, struct cairn_err *err)
{
	if (x->ended)
		return cairn_err_set(err, x->ended, "the caller has gone");
	if (cairn_buf_failed(&x->body))
		return cairn_err_set(err, CAIRN_INTERNAL, "the driver's sidecar sent too much");
	return cairn_err_set(
		err, code == CURLE_OPERATION_TIMEDOUT ? CAIRN_DEADLINE : CAIRN_UNAVAILABLE,
		"the driver's sidecar: %s", *x->text ? x->text : curl_easy_strerror(code));
}

static int remote_perform(CURL *curl, const struct aggapi_remote *remote, const char *url,
			  const char *question, struct curl_slist *fields, struct exchange *x,
			  long *ret_http, struct cairn_err *err)
{
	CURLcode code;

	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_POSTFIELDS, question);
	curl_easy_setopt(curl, CURLOPT_HTTPHEADER, fields);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, remote_on_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, x);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, x->text);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)remote->timeout_ms);
	code = curl_easy_perform(curl);
	if (code != CURLE_OK)
		return remote_failed(code, x, err);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, ret_http);
	return 0;
}

static int read_answer(const struct exchange *x, long http, uint64_t max_entries, json_t **ret,
		       struct cairn_err *err)
{
	kube_auto_json json_t *answer = NULL;
	int rc;

	if (http != 200)
		return aggapi_failure_read((const char *)x->body.data, x->body.len, (int)http, err);
	rc = kube_json_parse((const char *)x->body.data, x->body.len, &answer, err);
	if (rc)
		return cairn_err_set(err, CAIRN_INTERNAL, "the driver's sidecar sent no JSON");
	rc = aggapi_answer_check(answer, max_entries, err);
	if (!rc)
		*ret = cairn_take(answer);
	return rc;
}

int aggapi_remote_ask(struct aggapi_remote *remote, const char *driver,
		      const struct kube_driver_endpoint *endpoint,
		      const struct aggapi_question *question, const struct kube_wait *wait,
		      json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *object = aggapi_question_object(question);
	cairn_auto_free char *body = object ? kube_json_text(object, NULL) : NULL;
	cairn_auto_free char *url = cairn_printf("%s" AGGAPI_WIRE_DELTAS, endpoint->url);
	struct exchange x = {.body = CAIRN_BUF_INIT(AGGAPI_ANSWER_MAX), .wait = wait};
	struct curl_slist *fields = NULL;
	CURL *curl = NULL;
	long http = 0;
	int rc = body && url ? remote_make_fields(remote, driver, wait, &fields, err)
			     : cairn_err_nomem(err, "question");

	if (!rc) {
		curl = remote_take_handle(remote);
		rc = curl ? 0 : cairn_err_nomem(err, "client");
	}
	if (!rc) {
		remote_set_trust(curl, remote, endpoint);
		rc = remote_perform(curl, remote, url, body, fields, &x, &http, err);
	}
	if (curl)
		remote_give_handle(remote, curl);
	curl_slist_free_all(fields);
	if (body)
		explicit_bzero(body, strlen(body)); /* it may hold secrets */
	if (!rc)
		rc = read_answer(&x, http, question->max_entries, ret, err);
	cairn_buf_done(&x.body);
	return rc;
}
