/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the head of an HTTP/1.1 request: bytes in, slices out.
 *
 * Strict where implementations are known to read the same bytes differently:
 * lines end with CR LF, lines are not folded, a name is directly followed by
 * its colon, and a body has exactly one length. A rejected head comes with the
 * HTTP status to answer.
 */
#ifndef CAIRN_NET_HTTP_HEAD_H
#define CAIRN_NET_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of one request: bounds the comparisons that a peer can cause. */
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

/* How many of the `n` bytes form a complete head with its empty line, or 0 when
 * it is incomplete. The first `from` bytes were already searched without
 * success. */
size_t net_http_head_end(const char *bytes, size_t n, size_t from);

/* Parses a whole head of `n` bytes in place: the texts point into it. Returns
 * 0, or the HTTP status to reject it with (400, 414, 431, 501, 505). */
int net_http_head_parse(char *bytes, size_t n, struct net_http_head *ret);

/* The value of the first field with this lower-case name, or NULL. */
const char *net_http_head_field(const struct net_http_head *head, const char *name);

/* Decodes the value of `name` in a query into `out`. False when it is absent,
 * broken, or does not fit; "name" without "=" has the value "". */
bool net_http_query_get(const char *query, const char *name, char *out, size_t cap);

#endif
