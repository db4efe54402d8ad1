/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/pass_query.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/num.h"
#include "net/http/http_head.h"

/* How many pairs have this name. */
static size_t query_count(const char *query, const char *name)
{
	size_t want = strlen(name), found = 0;

	while (*query) {
		size_t n = strcspn(query, "&");

		found += strcspn(query, "=&") == want && memcmp(query, name, want) == 0;
		query += n + (query[n] == '&');
	}
	return found;
}

static bool query_name_plain(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
			return false;
	return true;
}

static bool query_value_plain(const char *value, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (value[i] == ';')
			return false;
		if (value[i] != '%')
			continue;
		if (n - i < 3 || !isxdigit((unsigned char)value[i + 1]) ||
		    !isxdigit((unsigned char)value[i + 2]) || strncmp(value + i, "%00", 3) == 0)
			return false;
	}
	return true;
}

bool aggapi_query_plain(const char *query)
{
	if (query_count(query, "watch") > 1 || query_count(query, "fieldSelector") > 1 ||
	    query_count(query, "timeoutSeconds") > 1)
		return false;
	while (*query) {
		size_t n = strcspn(query, "&"), name = strcspn(query, "=&");

		if (!query_name_plain(query, name) || !query_value_plain(query + name, n - name))
			return false;
		query += n + (query[n] == '&');
	}
	return true;
}

bool aggapi_query_watch(const char *query)
{
	char value[8];

	if (query_count(query, "watch") == 0)
		return false;
	/* What does not fit is neither of the two. */
	return !net_http_query_get(query, "watch", value, sizeof(value)) ||
	       (strcasecmp(value, "false") != 0 && strcmp(value, "0") != 0);
}

bool aggapi_query_add_limited(const char *query, uint64_t max_s, struct cairn_buf *out)
{
	static const char name[] = "timeoutSeconds";
	uint64_t seconds = 0;
	char value[24];

	if (query_count(query, name) > 0 &&
	    (!net_http_query_get(query, name, value, sizeof(value)) ||
	     cairn_parse_u64(value, &seconds, NULL) != 0))
		return false;
	while (*query) {
		size_t n = strcspn(query, "&");

		if (n > 0 && (strcspn(query, "=&") != sizeof(name) - 1 ||
			      memcmp(query, name, sizeof(name) - 1) != 0)) {
			cairn_buf_add(out, query, n);
			cairn_buf_addc(out, '&');
		}
		query += n + (query[n] == '&');
	}
	/* 0 leaves it to the API server, as no value does. */
	cairn_buf_addf(out, "%s=%" PRIu64, name, seconds > 0 && seconds < max_s ? seconds : max_s);
	return true;
}
