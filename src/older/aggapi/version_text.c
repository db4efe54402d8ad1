/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/version_text.h"

#include <string.h>

#include "base/buf.h"

/* What an open brace or bracket belongs to. */
enum level {
	LEVEL_EVENT = 1, /* the outermost value: an object, a list, a watch event */
	LEVEL_OBJECT,
	LEVEL_ITEMS,
	LEVEL_ROWS,
	LEVEL_ROW,
	LEVEL_METADATA,
	LEVEL_MANAGED,
	LEVEL_MANAGER,
};

static bool is_array(uint8_t level)
{
	return level == LEVEL_ITEMS || level == LEVEL_ROWS || level == LEVEL_MANAGED;
}

static bool has_version(uint8_t level)
{
	return level == LEVEL_EVENT || level == LEVEL_OBJECT || level == LEVEL_MANAGER;
}

/* What begins with `c` as the value of `key`, or in an array, of a level; 0: nothing of
 * interest. */
static uint8_t level_below(uint8_t parent, const char *key, char c)
{
	static const struct {
		uint8_t parent;
		char c;
		const char *key; /* NULL: an element of an array */
		uint8_t level;
	} rules[] = {
		{LEVEL_EVENT, '{', "object", LEVEL_OBJECT},
		{LEVEL_EVENT, '{', "metadata", LEVEL_METADATA},
		{LEVEL_EVENT, '[', "items", LEVEL_ITEMS},
		{LEVEL_EVENT, '[', "rows", LEVEL_ROWS},
		{LEVEL_OBJECT, '{', "metadata", LEVEL_METADATA},
		{LEVEL_OBJECT, '[', "rows", LEVEL_ROWS},
		{LEVEL_ITEMS, '{', NULL, LEVEL_OBJECT},
		{LEVEL_ROWS, '{', NULL, LEVEL_ROW},
		{LEVEL_ROW, '{', "object", LEVEL_OBJECT},
		{LEVEL_METADATA, '[', "managedFields", LEVEL_MANAGED},
		{LEVEL_MANAGED, '{', NULL, LEVEL_MANAGER},
	};

	if (parent == 0)
		return c == '{' ? LEVEL_EVENT : 0;
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].parent == parent && rules[i].c == c &&
		    (!rules[i].key || strcmp(rules[i].key, key) == 0))
			return rules[i].level;
	return 0;
}

void aggapi_version_text_init(struct aggapi_version_text *text, const char *from, const char *to)
{
	*text = (struct aggapi_version_text){.from = from, .to = to};
}

static uint8_t top_of(const struct aggapi_version_text *t)
{
	return t->n_levels > 0 ? t->levels[t->n_levels - 1] : 0;
}

static void open_value(struct aggapi_version_text *t, char c)
{
	uint8_t level = t->below > 0 ? 0 : level_below(top_of(t), t->key, c);

	if (level == 0 || t->n_levels == AGGAPI_VERSION_LEVELS) {
		t->below++;
		return;
	}
	t->levels[t->n_levels++] = level;
	t->want_key = c == '{';
	t->key[0] = '\0';
}

static void close_value(struct aggapi_version_text *t)
{
	if (t->below > 0)
		t->below--;
	else if (t->n_levels > 0)
		t->n_levels--;
	t->want_key = false;
}

static void open_string(struct aggapi_version_text *t)
{
	bool inside = t->below == 0 && t->n_levels > 0;

	t->escaped = false;
	t->mode = AGGAPI_TEXT_OTHER;
	if (inside && t->want_key) {
		t->mode = AGGAPI_TEXT_KEY;
		t->key_len = 0;
	} else if (inside && has_version(top_of(t)) && strcmp(t->key, "apiVersion") == 0) {
		t->mode = AGGAPI_TEXT_VALUE;
		t->n_held = 0;
	}
}

static void outside(struct aggapi_version_text *t, char c)
{
	switch (c) {
	case '{':
	case '[':
		open_value(t, c);
		break;
	case '}':
	case ']':
		close_value(t);
		break;
	case '"':
		open_string(t);
		break;
	case ',':
		if (t->below == 0)
			t->want_key = !is_array(top_of(t));
		break;
	case ':':
		if (t->below == 0)
			t->want_key = false;
		break;
	default:
		break;
	}
}

/* A key that is too long or has an escape is not one of the keys of interest. */
static void in_key(struct aggapi_version_text *t, char c)
{
	if (c == '"' && !t->escaped) {
		t->key[t->key_len < sizeof(t->key) ? t->key_len : 0] = '\0';
		t->mode = AGGAPI_TEXT_OUTSIDE;
		return;
	}
	if (c == '\\' || t->key_len >= sizeof(t->key) - 1)
		t->key_len = sizeof(t->key);
	else
		t->key[t->key_len++] = c;
	t->escaped = c == '\\' && !t->escaped;
}

static void in_other(struct aggapi_version_text *t, char c)
{
	if (c == '"' && !t->escaped)
		t->mode = AGGAPI_TEXT_OUTSIDE;
	t->escaped = c == '\\' && !t->escaped;
}

/* Collects an apiVersion; it is passed on when it is complete, or cannot be `from`. */
static void in_value(struct aggapi_version_text *t, char c, struct cairn_buf *out)
{
	size_t n = strlen(t->from);

	if (c == '"') {
		bool same = t->n_held == n && memcmp(t->held, t->from, n) == 0;

		if (same)
			cairn_buf_adds(out, t->to);
		else
			cairn_buf_add(out, t->held, t->n_held);
		cairn_buf_addc(out, c);
		t->n_held = 0;
		t->mode = AGGAPI_TEXT_OUTSIDE;
		return;
	}
	t->held[t->n_held++] = c;
	if (c == '\\' || t->n_held == sizeof(t->held)) {
		cairn_buf_add(out, t->held, t->n_held);
		t->n_held = 0;
		t->escaped = c == '\\';
		t->mode = AGGAPI_TEXT_OTHER;
	}
}

void aggapi_version_text_push(struct aggapi_version_text *t, const char *data, size_t n,
			      struct cairn_buf *out)
{
	size_t sent = 0; /* bytes of `data` that are in `out` */

	for (size_t i = 0; i < n; i++) {
		switch (t->mode) {
		case AGGAPI_TEXT_OUTSIDE:
			outside(t, data[i]);
			if (t->mode == AGGAPI_TEXT_VALUE) {
				cairn_buf_add(out, data + sent, i + 1 - sent);
				sent = i + 1;
			}
			break;
		case AGGAPI_TEXT_KEY:
			in_key(t, data[i]);
			break;
		case AGGAPI_TEXT_VALUE:
			in_value(t, data[i], out);
			sent = i + 1;
			break;
		default:
			in_other(t, data[i]);
			break;
		}
	}
	cairn_buf_add(out, data + sent, n - sent);
}

void aggapi_version_text_end(struct aggapi_version_text *t, struct cairn_buf *out)
{
	cairn_buf_add(out, t->held, t->n_held);
	t->n_held = 0;
}

static int change_text(json_t *object, const char *key, const char *from, const char *to)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_string(value) || strcmp(json_string_value(value), from) != 0)
		return 0;
	return json_object_set_new(object, key, json_string(to));
}

static int change_managed(json_t *list, const char *from, const char *to)
{
	json_t *entry;
	size_t i;

	json_array_foreach(list, i, entry)
	{
		if (change_text(entry, "apiVersion", from, to) < 0)
			return -1;
	}
	return 0;
}

static int version_change_object(json_t *object, const char *from, const char *to)
{
	json_t *metadata = json_object_get(object, "metadata");

	if (change_text(object, "apiVersion", from, to) < 0)
		return -1;
	return change_managed(json_object_get(metadata, "managedFields"), from, to);
}

/* One operation of a JSON Patch (RFC 6902). */
static int change_operation(json_t *operation, const char *from, const char *to)
{
	static const char managed[] = "/metadata/managedFields";
	const char *path = json_string_value(json_object_get(operation, "path"));
	json_t *value = json_object_get(operation, "value");

	if (!path)
		return 0;
	if (strcmp(path, "") == 0)
		return version_change_object(value, from, to);
	if (strcmp(path, "/metadata") == 0)
		return change_managed(json_object_get(value, "managedFields"), from, to);
	if (strcmp(path, managed) == 0)
		return change_managed(value, from, to);
	if (strncmp(path, managed, sizeof(managed) - 1) == 0 &&
	    change_text(value, "apiVersion", from, to) < 0)
		return -1;
	if (strcmp(path, "/apiVersion") == 0 || strncmp(path, managed, sizeof(managed) - 1) == 0)
		return change_text(operation, "value", from, to);
	return 0;
}

int aggapi_version_tree(json_t *tree, const char *from, const char *to)
{
	json_t *operation;
	size_t i;

	if (!json_is_array(tree))
		return version_change_object(tree, from, to);
	json_array_foreach(tree, i, operation)
	{
		if (change_operation(operation, from, to) < 0)
			return -1;
	}
	return 0;
}
