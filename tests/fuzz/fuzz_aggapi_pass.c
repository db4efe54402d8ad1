/* SPDX-License-Identifier: Apache-2.0 */

/* What is passed on by the aggregated API server: a query and an Accept field (the first two
 * lines), and a body or an answer. */

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "kube/object.h"
#include "older/aggapi/pass_query.h"
#include "older/aggapi/pass_request.h"
#include "older/aggapi/path.h"
#include "older/aggapi/version_text.h"

#define STORED "cbt.storage.k8s.io/v1alpha2"
#define SERVED "cbt.storage.k8s.io/v1alpha1"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void change(const char *text, size_t n, size_t step, struct cairn_buf *out)
{
	struct aggapi_version_text t;

	aggapi_version_text_init(&t, STORED, SERVED);
	for (size_t at = 0; at < n; at += step)
		aggapi_version_text_push(&t, text + at, n - at < step ? n - at : step, out);
	aggapi_version_text_end(&t, out);
	if (cairn_buf_failed(out))
		abort();
}

/* Only the last byte of a whole "STORED" may change, wherever the pieces end. */
/* Whether the byte at `at` is the last of a version in quotes. */
static bool ends_a_version(const char *text, size_t n, size_t at)
{
	static const char quoted[] = "\"" STORED "\"";
	const size_t before = sizeof(quoted) - 3, all = sizeof(quoted) - 1;

	return at >= before && all <= n - (at - before) &&
	       memcmp(text + at - before, quoted, all) == 0;
}

static void as_answer(const char *text, size_t n)
{
	cairn_auto_buf struct cairn_buf whole = CAIRN_BUF_INIT(32U << 20);
	cairn_auto_buf struct cairn_buf pieces = CAIRN_BUF_INIT(32U << 20);

	change(text, n, n ? n : 1, &whole);
	change(text, n, n % 7 + 1, &pieces);
	if (whole.len != n || pieces.len != n || (n && memcmp(whole.data, pieces.data, n) != 0))
		abort();
	for (size_t i = 0; i < n; i++)
		if ((char)whole.data[i] != text[i] && !ends_a_version(text, n, i))
			abort();
}

static void as_body(const char *text, size_t n)
{
	kube_auto_json json_t *tree = NULL;

	if (kube_json_parse(text, n, &tree, NULL) != 0)
		return;
	if (aggapi_version_tree(tree, SERVED, STORED) < 0)
		abort();
	if (aggapi_pass_bind(tree, "u") == 0 && !kube_str(tree, "metadata", "uid"))
		abort();
}

static void as_query(const char *query, const char *accept)
{
	cairn_auto_free char *ranges = aggapi_pass_accept(accept);
	char name[AGGAPI_NAME_MAX];

	if (ranges && strncmp(ranges, "application/json", 16) != 0)
		abort();
	if (aggapi_pass_selected(query, name, sizeof(name)) && (!*name || !aggapi_name_valid(name)))
		abort();
	if (aggapi_query_watch(query) && !strstr(query, "watch"))
		abort();
	if (aggapi_query_plain(query) && strchr(query, ';'))
		abort();
}

/* Cuts a line off; "" if there is none, or it is long. */
static void take_line(const char **at, size_t *n, char *out, size_t cap)
{
	const char *end = *n ? memchr(*at, '\n', *n) : NULL;
	size_t len = end ? (size_t)(end - *at) : 0;

	out[0] = '\0';
	if (!end)
		return;
	if (len < cap) {
		memcpy(out, *at, len);
		out[len] = '\0';
	}
	*at += len + 1;
	*n -= len + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const char *at = (const char *)data;
	char query[512], accept[512];

	take_line(&at, &n, query, sizeof(query));
	take_line(&at, &n, accept, sizeof(accept));
	as_query(query, accept);
	as_answer(at, n);
	as_body(at, n);
	return 0;
}
