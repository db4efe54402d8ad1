/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/remote.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "http_client/http_call.h"
#include "http_client/http_client.h"
#include "http_client/idle_handles.h"
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
	struct http_client_idle idle;
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
	http_client_idle_init(&remote->idle, HANDLES_KEPT);
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
	http_client_idle_done(&remote->idle);
	free(remote->cert_file);
	free(remote->key_file);
	free(remote);
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
	bool ok;
	int rc = aggapi_tokens_get(remote->tokens, driver, wait, &token, err);

	if (rc)
		return rc;
	ok = http_client_add_field(ret, "Content-Type: application/json") &&
	     http_client_add_field(ret, "Expect:");
	if (token[0]) {
		line = cairn_printf("Authorization: Bearer %s", token);
		ok = ok && line && http_client_add_field(ret, line);
	}
	return ok ? 0 : cairn_err_nomem(err, "request");
}

static int remote_perform(struct aggapi_remote *remote, const struct kube_driver_endpoint *endpoint,
			  const struct kube_wait *wait, const struct http_client_call *call,
			  long *ret_http, struct cairn_err *err)
{
	struct http_client_settings settings = {.proxy = HTTP_CLIENT_NO_PROXY,
						.ca_pem = endpoint->ca_pem,
						.cert_file = remote->cert_file,
						.key_file = remote->key_file,
						.timeout_ms = remote->timeout_ms};
	struct http_client_call whole = *call;
	int rc;

	whole.check = wait->check;
	whole.check_arg = wait->arg;
	rc = http_client_call(&remote->idle, &settings, &whole, ret_http, err);
	return rc ? cairn_err_wrap(err, "the driver's sidecar") : 0;
}

static int read_answer(const struct cairn_buf *body, long http, uint64_t max_entries, json_t **ret,
		       struct cairn_err *err)
{
	kube_auto_json json_t *answer = NULL;
	int rc;

	if (http != 200)
		return aggapi_failure_read((const char *)body->data, body->len, (int)http, err);
	rc = kube_json_parse((const char *)body->data, body->len, &answer, err);
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
	/* It may hold secrets. */
	cairn_cleanup(remote_wipe) char *body = object ? kube_json_text(object, NULL) : NULL;
	cairn_auto_free char *url = cairn_printf("%s" AGGAPI_WIRE_DELTAS, endpoint->url);
	cairn_auto_buf struct cairn_buf answer = CAIRN_BUF_INIT(AGGAPI_ANSWER_MAX);
	cairn_cleanup(http_client_fields_freep) struct curl_slist *fields = NULL;
	struct http_client_call call = {.url = url, .body = body, .answer = &answer};
	long http = 0;
	int rc;

	if (!body || !url)
		return cairn_err_nomem(err, "question");
	call.body_len = strlen(body);
	rc = remote_make_fields(remote, driver, wait, &fields, err);
	call.fields = fields;
	if (!rc)
		rc = remote_perform(remote, endpoint, wait, &call, &http, err);
	return rc ? rc : read_answer(&answer, http, question->max_entries, ret, err);
}
