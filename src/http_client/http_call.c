/* SPDX-License-Identifier: Apache-2.0 */

#include "http_client/http_call.h"

#include "base/buf.h"
#include "base/err.h"
#include "http_client/http_client.h"
#include "http_client/idle_handles.h"

#define SET(option, value) (ok = ok && curl_easy_setopt(easy, (option), (value)) == CURLE_OK)

struct http_call_state {
	const struct http_client_call *call;
	int ended; /* code of the failed check */
	char text[CURL_ERROR_SIZE];
};

static size_t http_call_on_body(char *data, size_t size, size_t n, void *arg)
{
	struct http_call_state *state = arg;
	struct cairn_buf *answer = state->call->answer;

	if (!answer)
		return size * n;
	cairn_buf_add(answer, data, size * n);
	return cairn_buf_failed(answer) ? 0 : size * n;
}

static int http_call_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct http_call_state *state = arg;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	state->ended = state->call->check(state->call->check_arg);
	return state->ended != 0;
}

static bool http_call_prepare(CURL *easy, const struct http_client_settings *settings,
			      struct http_call_state *state)
{
	const struct http_client_call *call = state->call;
	bool ok = http_client_apply(easy, settings);

	SET(CURLOPT_URL, call->url);
	SET(CURLOPT_HTTPHEADER, call->fields);
	SET(CURLOPT_WRITEFUNCTION, http_call_on_body);
	SET(CURLOPT_WRITEDATA, state);
	SET(CURLOPT_ERRORBUFFER, state->text);
	if (call->body) {
		SET(CURLOPT_POSTFIELDS, call->body);
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_len);
	}
	if (call->method)
		SET(CURLOPT_CUSTOMREQUEST, call->method);
	if (call->check) {
		SET(CURLOPT_NOPROGRESS, 0L);
		SET(CURLOPT_XFERINFOFUNCTION, http_call_on_progress);
		SET(CURLOPT_XFERINFODATA, state);
	}
	return ok;
}

static int http_call_failed(CURLcode code, const struct http_call_state *state,
			    struct cairn_err *err)
{
	const struct cairn_buf *answer = state->call->answer;

	if (state->ended)
		return cairn_err_set(err, state->ended, "the caller has gone");
	if (answer && cairn_buf_failed(answer))
		return cairn_err_set(err, CAIRN_INTERNAL, "the answer is too large");
	return cairn_err_set(err,
			     code == CURLE_OPERATION_TIMEDOUT ? CAIRN_DEADLINE : CAIRN_UNAVAILABLE,
			     "%s", *state->text ? state->text : curl_easy_strerror(code));
}

int http_client_call(struct http_client_idle *idle, const struct http_client_settings *settings,
		     const struct http_client_call *call, long *ret_status, struct cairn_err *err)
{
	struct http_call_state state = {.call = call};
	CURLcode code;
	CURL *easy;
	int rc = 0;

	http_client_init();
	easy = idle ? http_client_idle_take(idle) : curl_easy_init();
	if (easy && http_call_prepare(easy, settings, &state)) {
		code = curl_easy_perform(easy);
		if (code == CURLE_OK)
			curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, ret_status);
		else
			rc = http_call_failed(code, &state, err);
	} else {
		rc = cairn_err_nomem(err, "request");
	}
	if (idle && easy)
		http_client_idle_give(idle, easy);
	else
		curl_easy_cleanup(easy);
	return rc;
}
