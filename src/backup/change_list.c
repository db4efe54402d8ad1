/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/change_list.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "block/extent.h"

#define ROUNDING (64U << 10) /* a tracker's last block may exceed the volume by up to this */

static void change_list_fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

struct listing {
	const struct block_sink *sink;
	uint64_t size;
	uint64_t line;
	bool document; /* the head of an --output json document was seen */
	bool ended;
};

static int change_list_bad(const struct listing *l, const char *what, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_INVALID, "line %llu of the list of changes %s",
			     (unsigned long long)l->line, what);
}

static int take_extent(struct listing *l, json_t *extent, struct cairn_err *err)
{
	json_int_t offset = -1;
	json_int_t length = -1;
	uint64_t end;

	if (json_unpack(extent, "{s:I, s:I}", "byte_offset", &offset, "size_bytes", &length) ||
	    offset < 0 || length < 0)
		return change_list_bad(
			l, "is not an extent: byte_offset and size_bytes are missing", err);
	end = (uint64_t)offset + (uint64_t)length;
	if (end > l->size && (end - l->size > ROUNDING || (uint64_t)offset >= l->size))
		return change_list_bad(l, "is past the end: it is the list of another volume", err);
	if (length == 0)
		return 0;
	if (end > l->size)
		end = l->size;
	return l->sink->emit(l->sink->arg,
			     &(struct block_extent){.offset = (uint64_t)offset,
						    .length = end - (uint64_t)offset},
			     err);
}

/* Checks the fields before the extents of a document, as far as they are present. */
static int change_list_check_head(const struct listing *l, json_t *head, struct cairn_err *err)
{
	const json_t *base = json_object_get(head, "base");
	const json_t *capacity = json_object_get(head, "volume_capacity_bytes");
	const json_t *first = json_object_get(head, "starting_offset");
	json_int_t size = json_integer_value(capacity);

	if (json_is_null(base))
		return change_list_bad(
			l, "has no base: it lists what is allocated, not what changed", err);
	if (first && (!json_is_integer(first) || json_integer_value(first) != 0))
		return change_list_bad(l, "has a starting_offset: it is a part of a list", err);
	if (capacity && (!json_is_integer(capacity) || size < 0 || (uint64_t)size < l->size ||
			 (uint64_t)size - l->size > ROUNDING))
		return change_list_bad(
			l, "has another volume_capacity_bytes: it is the list of another volume",
			err);
	return 0;
}

/* Parses the head of a document: a line of its own that ends in '['. */
static int take_head(struct listing *l, char *line, size_t n, struct cairn_err *err)
{
	cairn_cleanup(json_decrefp) json_t *head = NULL;

	memcpy(line + n, "]}", 3); /* the caller left space */
	head = json_loadb(line, n + 2, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_array(json_object_get(head, "block_metadata")) ||
	    json_array_size(json_object_get(head, "block_metadata")) > 0)
		return change_list_bad(l, "is not the head of a list: block_metadata is missing",
				       err);
	l->document = true;
	return change_list_check_head(l, head, err);
}

static int take_item(struct listing *l, const char *line, size_t n, struct cairn_err *err)
{
	cairn_cleanup(json_decrefp) json_t *item =
		json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);

	if (!l->document && json_object_size(item) == 1 &&
	    json_is_true(json_object_get(item, "end"))) {
		l->ended = true;
		return 0;
	}
	return take_extent(l, item, err);
}

/* `line` has space for two more characters. */
static int change_list_take_line(struct listing *l, char *line, struct cairn_err *err)
{
	size_t n = strlen(line);

	l->line++;
	if (n == CHANGE_LIST_LINE_MAX && line[n - 1] != '\n')
		return change_list_bad(l, "is too long", err);
	if (n == 0 || line[n - 1] != '\n')
		return change_list_bad(l, "has no end: the list was cut short", err);
	line[--n] = '\0';
	if (l->ended)
		return change_list_bad(l, "is behind the end", err);
	if (n == 0)
		return change_list_bad(l, "is empty", err);
	if (l->line == 1 && line[n - 1] == '[')
		return take_head(l, line, n, err);
	if (l->document && strcmp(line, "]}") == 0) {
		l->ended = true;
		return 0;
	}
	if (l->document && line[n - 1] == ',')
		n--;
	return take_item(l, line, n, err);
}

static int check_end(const struct listing *l, struct cairn_err *err)
{
	if (l->line == 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the list of changes is empty, which may be an error of its "
				     "maker; that of 'cairn delta --output json' says so when "
				     "nothing changed");
	if (l->document && !l->ended)
		return change_list_bad(l, "is the last one: the list was cut short", err);
	if (!l->ended)
		return change_list_bad(
			l,
			"is the last one, and does not say so: the list may have been cut "
			"short; use 'cairn delta --output json', or end it with the line "
			"{\"end\":true}",
			err);
	return 0;
}

int backup_change_list_parse(FILE *file, uint64_t size, const struct block_sink *sink,
			     struct cairn_err *err)
{
	struct listing l = {.sink = sink, .size = size};
	char line[CHANGE_LIST_LINE_MAX + 3];
	int rc = 0;

	while (!rc && fgets(line, CHANGE_LIST_LINE_MAX + 1, file))
		rc = change_list_take_line(&l, line, err);
	if (!rc && ferror(file))
		return cairn_err_sys(err, errno, "read the list of changes");
	return rc ? rc : check_end(&l, err);
}

int backup_change_list_read(const char *path, uint64_t size, const struct block_sink *sink,
			    struct cairn_err *err)
{
	cairn_cleanup(change_list_fclosep) FILE *file = NULL;
	cairn_auto_fd int fd = -1;
	int rc = cairn_open_readable(AT_FDCWD, path, &fd, err);

	if (rc)
		return rc;
	file = fdopen(fd, "r");
	if (!file)
		return cairn_err_sys(err, errno, "open '%s'", path);
	(void)cairn_take_fd(&fd);
	rc = backup_change_list_parse(file, size, sink, err);
	return rc ? cairn_err_wrap(err, "'%s'", path) : 0;
}
