/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the head of an HTTP/1.1 request: bytes in, slices out.
 *
 * Strict where peers are known to read the same bytes differently: lines end
 * with CR LF, nothing is folded, a name stands right before its colon, and a
 * body has exactly one length. What is refused comes with the status to answer.
 */
#ifndef CAIRN_NET_HTTP_HEAD_H
#define CAIRN_NET_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of one request: bounds what a peer makes us compare. */
#define NET_HTTP_FIELDS_MAX 64

/* Bytes of the request line, and so of a path. */
#define NET_HTTP_LINE_MAX 8192

struct net_http_field {
	char *name; /* lower case */
	char *value;
};

struct net_http_head {
	char *method;
	char *path;     /* decoded, begins with "/", no NUL inside */
	char *query;    /* as it was sent, without "?"; "" when there is none */
	unsigned minor; /* of HTTP/1.x: 0 or 1 */

	struct net_http_field fields[NET_HTTP_FIELDS_MAX];
	size_t n_fields;

	bool chunked;
	uint64_t length; /* of the body, unless chunked */
	bool keep_alive;
	bool expect_continue;
};

/* How many of the `n` bytes are a whole head with its empty line, or 0 when it
 * is not complete. `from` says how many were looked at in vain before. */
size_t net_http_head_end(const char *bytes, size_t n, size_t from);

/* Parses a whole head of `n` bytes in place: texts are cut out of it and live
 * as long. Returns 0, or the HTTP status to refuse it with (400, 414, 431,
 * 501, 505). */
int net_http_head_parse(char *bytes, size_t n, struct net_http_head *ret);

/* The value of the first field with this lower-case name, or NULL. */
const char *net_http_head_field(const struct net_http_head *head, const char *name);

/* Decodes the value of `name` in a query into `out`. False when it is absent,
 * broken, or does not fit; "name" without "=" has the value "". */
bool net_http_query_get(const char *query, const char *name, char *out, size_t cap);

#endif
