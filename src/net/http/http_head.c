/* SPDX-License-Identifier: Apache-2.0 */

#include "net/http/http_head.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"

enum {
	BAD_REQUEST = 400,
	URI_TOO_LONG = 414,
	TOO_MANY_FIELDS = 431,
	NOT_IMPLEMENTED = 501,
	BAD_VERSION = 505,
};

size_t net_http_head_end(const char *bytes, size_t n, size_t from)
{
	const char *found;

	if (n == 0) /* `bytes` may be NULL */
		return 0;
	from = from > 3 ? from - 3 : 0; /* an earlier read may have ended within the CR LF CR LF */
	found = memmem(bytes + from, n - from, "\r\n\r\n", 4);
	return found ? (size_t)(found - bytes) + 4 : 0;
}

static bool is_token_char(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!is_token_char(*text))
			return false;
	return true;
}

static int http_head_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* %XX at `p` as a byte, or -1. */
static int http_head_percent(const char *p, size_t n)
{
	int high, low;

	if (n < 3)
		return -1;
	high = http_head_hex_value(p[1]);
	low = http_head_hex_value(p[2]);
	return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* In place; false for a broken escape or one of NUL. */
static bool decode_path(char *path)
{
	size_t n = strlen(path);
	char *out = path;

	for (size_t i = 0; i < n; i++) {
		int byte = (unsigned char)path[i];

		if (byte == '%') {
			byte = http_head_percent(path + i, n - i);
			if (byte <= 0)
				return false;
			i += 2;
		}
		*out++ = (char)byte;
	}
	*out = 0;
	return true;
}

/* Cuts the next line off `*rest`; NULL when it does not end with CR LF or holds
 * a character that no line may. */
static char *http_head_cut_line(char **rest, const char *end)
{
	char *line = *rest;
	char *stop = memmem(line, (size_t)(end - line), "\r\n", 2);

	if (!stop)
		return NULL;
	for (char *p = line; p < stop; p++)
		if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
			return NULL;
	*stop = 0;
	*rest = stop + 2;
	return line;
}

/* "/path?query", or the same after "http://host". */
static int parse_target(char *target, struct net_http_head *head)
{
	static char no_query[] = "";
	char *mark;

	if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
		target = strchr(strchr(target, ':') + 3, '/');
		if (!target)
			return BAD_REQUEST;
	}
	if (*target != '/')
		return BAD_REQUEST;
	for (const char *p = target; *p; p++)
		if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f || *p == '#')
			return BAD_REQUEST;
	mark = strchr(target, '?');
	if (mark)
		*mark++ = 0;
	head->query = mark ? mark : no_query;
	head->path = target;
	return decode_path(target) ? 0 : BAD_REQUEST;
}

static int parse_request_line(char *line, struct net_http_head *head)
{
	char *target, *version;

	if (strlen(line) > NET_HTTP_LINE_MAX)
		return URI_TOO_LONG;
	target = strchr(line, ' ');
	version = target ? strchr(target + 1, ' ') : NULL;
	if (!version)
		return BAD_REQUEST;
	*target++ = 0;
	*version++ = 0;
	if (!is_token(line) || strncmp(version, "HTTP/", 5) != 0)
		return BAD_REQUEST;
	if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
		return BAD_VERSION;
	head->method = line;
	head->minor = (unsigned)(version[7] - '0');
	return parse_target(target, head);
}

static int parse_field(char *line, struct net_http_head *head)
{
	char *colon = strchr(line, ':');
	struct net_http_field *field;
	char *value, *end;

	if (head->n_fields == NET_HTTP_FIELDS_MAX)
		return TOO_MANY_FIELDS;
	if (!colon)
		return BAD_REQUEST;
	*colon = 0;
	if (!is_token(line)) /* this also rejects folded lines, which begin with a space */
		return BAD_REQUEST;
	for (char *p = line; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	value = colon + 1;
	value += strspn(value, " \t");
	end = value + strlen(value);
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = 0;
	field = &head->fields[head->n_fields++];
	field->name = line;
	field->value = value;
	return 0;
}

const char *net_http_head_field(const struct net_http_head *head, const char *name)
{
	for (size_t i = 0; i < head->n_fields; i++)
		if (strcmp(head->fields[i].name, name) == 0)
			return head->fields[i].value;
	return NULL;
}

static size_t field_count(const struct net_http_head *head, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < head->n_fields; i++)
		n += strcmp(head->fields[i].name, name) == 0;
	return n;
}

/* Exactly one length, given in one way; every other combination has been used
 * to hide a second request in the body of the first. */
static int find_body(struct net_http_head *head)
{
	const char *length = net_http_head_field(head, "content-length");
	const char *coding = net_http_head_field(head, "transfer-encoding");

	if (field_count(head, "content-length") > 1 || field_count(head, "transfer-encoding") > 1 ||
	    (length && coding) || (coding && head->minor == 0))
		return BAD_REQUEST;
	if (coding && strcasecmp(coding, "chunked") != 0)
		return NOT_IMPLEMENTED;
	head->chunked = coding != NULL;
	head->length = 0;
	if (length &&
	    (!isdigit((unsigned char)*length) || cairn_parse_u64(length, &head->length, NULL) < 0))
		return BAD_REQUEST;
	return 0;
}

/* Does a comma-separated list hold the word? */
static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	while (list && *list) {
		list += strspn(list, " \t,");
		if (strncasecmp(list, word, n) == 0 && (!list[n] || strchr(" \t,", list[n])))
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

static bool connection_has(const struct net_http_head *head, const char *word)
{
	for (size_t i = 0; i < head->n_fields; i++)
		if (strcmp(head->fields[i].name, "connection") == 0 &&
		    list_has(head->fields[i].value, word))
			return true;
	return false;
}

static void find_connection(struct net_http_head *head)
{
	const char *expect = net_http_head_field(head, "expect");

	head->keep_alive = head->minor == 1 ? !connection_has(head, "close")
					    : connection_has(head, "keep-alive");
	head->expect_continue =
		head->minor == 1 && expect && strcasecmp(expect, "100-continue") == 0;
}

int net_http_head_parse(char *bytes, size_t n, struct net_http_head *ret)
{
	char *rest = bytes, *end = bytes + n;
	char *line = http_head_cut_line(&rest, end);
	int status;

	memset(ret, 0, sizeof(*ret));
	if (!line)
		return BAD_REQUEST;
	status = parse_request_line(line, ret);
	while (status == 0) {
		line = http_head_cut_line(&rest, end);
		if (!line)
			return BAD_REQUEST;
		if (!*line)
			break;
		status = parse_field(line, ret);
	}
	if (status == 0 && field_count(ret, "host") != 1 &&
	    (ret->minor == 1 || field_count(ret, "host") > 1))
		status = BAD_REQUEST;
	/* Software in front of us might check another one than we do. */
	if (status == 0 && field_count(ret, "authorization") > 1)
		status = BAD_REQUEST;
	if (status == 0)
		status = find_body(ret);
	if (status == 0)
		find_connection(ret);
	return status;
}

/* Decodes `n` bytes of a query; "+" is a space there. */
static bool decode_query(const char *text, size_t n, char *out, size_t cap)
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		int byte = text[i] == '+' ? ' ' : (unsigned char)text[i];

		if (byte == '%') {
			byte = http_head_percent(text + i, n - i);
			if (byte <= 0)
				return false;
			i += 2;
		}
		if (len + 1 >= cap)
			return false;
		out[len++] = (char)byte;
	}
	out[len] = 0;
	return true;
}

bool net_http_query_get(const char *query, const char *name, char *out, size_t cap)
{
	size_t want = strlen(name);

	while (*query) {
		size_t n = strcspn(query, "&");
		size_t key = strcspn(query, "=&");

		if (key == want && memcmp(query, name, want) == 0) {
			const char *value = query + key + (key < n);

			return cap > 0 &&
			       decode_query(value, n - (size_t)(value - query), out, cap);
		}
		query += n + (query[n] == '&');
	}
	return false;
}
