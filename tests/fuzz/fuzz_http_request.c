/* SPDX-License-Identifier: Apache-2.0 */

/* The head of an HTTP/1.1 request, what its query holds, and a chunked body
 * behind it, fed whole and byte by byte. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "net/http/http_chunk.h"
#include "net/http/http_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_MAX 4096

static int feed(const char *data, size_t n, size_t step, struct cairn_buf *body, size_t *ret_used)
{
	struct net_http_chunks chunks = {0};
	int status = 0;
	size_t at = 0;

	while (at < n && status == 0) {
		size_t piece = n - at < step ? n - at : step, used;

		status = net_http_chunks_feed(&chunks, data + at, piece, body, &used);
		at += used;
	}
	*ret_used = at;
	return status;
}

static void body(const char *data, size_t n)
{
	cairn_auto_buf struct cairn_buf whole = CAIRN_BUF_INIT(BODY_MAX);
	cairn_auto_buf struct cairn_buf bytes = CAIRN_BUF_INIT(BODY_MAX);
	size_t used1, used2;
	int a = feed(data, n, n + 1, &whole, &used1), b = feed(data, n, 1, &bytes, &used2);

	if (a != b || (a <= 1 && used1 != used2) ||
	    (a <= 1 && (whole.len != bytes.len ||
			(whole.len && memcmp(whole.data, bytes.data, whole.len) != 0))))
		abort();
}

static void look(const struct net_http_head *head)
{
	char value[64];

	if (head->path[0] != '/' || head->n_fields > NET_HTTP_FIELDS_MAX ||
	    (head->chunked && head->length) || head->minor > 1)
		abort();
	for (size_t i = 0; i < head->n_fields; i++)
		if (!net_http_head_field(head, head->fields[i].name) ||
		    strpbrk(head->fields[i].value, "\r\n"))
			abort();
	(void)net_http_query_get(head->query, "a", value, sizeof(value));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = malloc(size + 1);
	struct net_http_head head;
	size_t n;

	if (!copy)
		return 0;
	memcpy(copy, data, size);
	n = net_http_head_end(copy, size, 0);
	if (n > 0 && net_http_head_parse(copy, n, &head) == 0) {
		look(&head);
		if (head.chunked)
			body(copy + n, size - n);
	} else if (n == 0) {
		body(copy, size);
	}
	free(copy);
	return 0;
}
