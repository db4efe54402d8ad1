/* SPDX-License-Identifier: Apache-2.0 */

/* One blocking HTTP call with a small body and a small answer. */
#ifndef CAIRN_HTTP_CLIENT_HTTP_CALL_H
#define CAIRN_HTTP_CLIENT_HTTP_CALL_H

#include <stddef.h>

struct cairn_buf;
struct cairn_err;
struct curl_slist;
struct http_client_idle;
struct http_client_settings;

struct http_client_call {
	const char *method; /* NULL: POST with a body, GET without one */
	const char *url;
	struct curl_slist *fields;
	const void *body; /* or NULL */
	size_t body_len;
	struct cairn_buf *answer; /* up to its maximum; NULL: discarded */

	/* Called now and then; a code other than 0 ends the call with it. Or NULL. */
	int (*check)(const void *arg);
	const void *check_arg;
};

/* Returns 0 when an answer arrived, whatever its status. Connections are taken from `idle`
 * and returned to it; NULL: a connection for this call only.
 *
 * CAIRN_DEADLINE     the settings' timeout has passed
 * CAIRN_UNAVAILABLE  the peer cannot be reached, or is not trusted
 * CAIRN_INTERNAL     the answer is larger than allowed
 * others             the code of `check`
 */
int http_client_call(struct http_client_idle *idle, const struct http_client_settings *settings,
		     const struct http_client_call *call, long *ret_status, struct cairn_err *err);

#endif
