/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/s3/xml.h"

#include <expat.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"

#define DEPTH_MAX 32

/* Text is collected for the innermost element only, because no element of interest contains
 * others. */
struct reading {
	XML_Parser parser;
	unsigned depth;
	char text[S3_TEXT_MAX];
	size_t n;
	bool too_long;

	/* for a listing */
	bool is_list, in_item;
	char key[S3_TEXT_MAX];
	uint64_t size;
	s3_key_fn *fn;
	void *arg;
	struct s3_page *page;
	int rc;
	struct cairn_err *err;

	/* for one text */
	const char *wanted;
	char *out;
	size_t max;
	bool found;
};

static void xml_stop(struct reading *reading)
{
	XML_StopParser(reading->parser, XML_FALSE);
}

/* S3 sends no document types, so one is refused: this stops entity expansion attacks. */
static void refuse_doctype(void *arg, const char *name, const char *system_id,
			   const char *public_id, int has_subset)
{
	(void)name;
	(void)system_id;
	(void)public_id;
	(void)has_subset;
	xml_stop(arg);
}

/* Some servers use a prefix for the namespace. */
static const char *local_name(const char *name)
{
	const char *colon = strrchr(name, ':');

	return colon ? colon + 1 : name;
}

static void xml_text(void *arg, const char *data, int n)
{
	struct reading *reading = arg;
	size_t room = sizeof(reading->text) - 1 - reading->n;

	if ((size_t)n > room) {
		reading->too_long = true;
		return;
	}
	memcpy(reading->text + reading->n, data, (size_t)n);
	reading->n += (size_t)n;
}

static void xml_begin(void *arg, const char *name, const char **attributes)
{
	struct reading *reading = arg;

	(void)attributes;
	if (++reading->depth > DEPTH_MAX)
		xml_stop(reading);
	reading->n = 0;
	reading->too_long = false;
	name = local_name(name);
	if (reading->depth == 1)
		reading->is_list = strcmp(name, "ListBucketResult") == 0;
	if (reading->depth == 2 && strcmp(name, "Contents") == 0) {
		reading->in_item = true;
		reading->key[0] = '\0';
		reading->size = 0;
	}
}

static void xml_fail(struct reading *reading, const char *what)
{
	if (reading->rc == 0)
		reading->rc = cairn_err_set(reading->err, CAIRN_INTERNAL,
					    "the server's listing is not understood: %s", what);
	xml_stop(reading);
}

static void end_in_item(struct reading *reading, const char *name)
{
	if (strcmp(name, "Key") == 0) {
		if (reading->too_long)
			xml_fail(reading, "a key is too long");
		memcpy(reading->key, reading->text, reading->n + 1);
	} else if (strcmp(name, "Size") == 0) {
		if (reading->too_long || cairn_parse_u64(reading->text, &reading->size, NULL) < 0)
			xml_fail(reading, "a size is not a number");
	}
}

static void end_in_list(struct reading *reading, const char *name)
{
	if (strcmp(name, "Contents") == 0 && reading->in_item) {
		reading->in_item = false;
		reading->rc = reading->fn(reading->arg, reading->key, reading->size, reading->err);
		if (reading->rc < 0)
			xml_stop(reading);
	} else if (strcmp(name, "IsTruncated") == 0) {
		reading->page->truncated = strcmp(reading->text, "true") == 0;
	} else if (strcmp(name, "NextContinuationToken") == 0) {
		if (reading->too_long)
			xml_fail(reading, "a token is too long");
		memcpy(reading->page->token, reading->text, reading->n + 1);
	}
}

static void xml_end(void *arg, const char *name)
{
	struct reading *reading = arg;

	name = local_name(name);
	reading->text[reading->n] = '\0';
	if (reading->rc == 0 && reading->fn && reading->is_list) {
		if (reading->depth == 3 && reading->in_item)
			end_in_item(reading, name);
		else if (reading->depth == 2)
			end_in_list(reading, name);
	}
	if (reading->wanted && strcmp(name, reading->wanted) == 0) {
		reading->found = !reading->too_long && reading->n < reading->max;
		if (reading->found)
			memcpy(reading->out, reading->text, reading->n + 1);
		reading->wanted = NULL; /* the first one counts */
	}
	reading->depth--;
	reading->n = 0;
}

static bool xml_parse(struct reading *reading, const char *xml, size_t n)
{
	enum XML_Status status;

	reading->parser = XML_ParserCreate(NULL);
	if (!reading->parser || n > INT_MAX) {
		XML_ParserFree(reading->parser);
		return false;
	}
	XML_SetUserData(reading->parser, reading);
	XML_SetElementHandler(reading->parser, xml_begin, xml_end);
	XML_SetCharacterDataHandler(reading->parser, xml_text);
	XML_SetStartDoctypeDeclHandler(reading->parser, refuse_doctype);
	status = XML_Parse(reading->parser, xml, (int)n, 1);
	XML_ParserFree(reading->parser);
	return status == XML_STATUS_OK;
}

int s3_parse_list(const char *xml, size_t n, s3_key_fn *fn, void *arg, struct s3_page *ret,
		  struct cairn_err *err)
{
	struct reading reading = {.fn = fn, .arg = arg, .page = ret, .err = err};
	bool fine;

	*ret = (struct s3_page){0};
	fine = xml_parse(&reading, xml, n);
	if (reading.rc < 0)
		return reading.rc;
	if (!fine || !reading.is_list)
		return cairn_err_set(err, CAIRN_INTERNAL, "the server's listing is not understood");
	if (ret->truncated && !ret->token[0])
		return cairn_err_set(
			err, CAIRN_INTERNAL,
			"the server's listing is truncated, but has no continuation token");
	return 0;
}

bool s3_find_text(const char *xml, size_t n, const char *name, char *out, size_t max)
{
	struct reading reading = {.wanted = name, .out = out, .max = max};

	return xml_parse(&reading, xml, n) && reading.found;
}
