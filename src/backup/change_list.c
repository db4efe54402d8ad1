/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/change_list.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "block/extent.h"

#define LINE_MAX_BYTES 4096U
#define ROUNDING       (64U << 10) /* a tracker's last block may be longer than what is left */

static void fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

struct listing {
	const struct block_sink *sink;
	uint64_t size;
	uint64_t line;
	bool document; /* of --output json: its head was seen */
	bool ended;
};

static int bad(const struct listing *l, const char *what, struct cairn_err *err)
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
		return bad(l, "is no extent: byte_offset and size_bytes are wanted", err);
	end = (uint64_t)offset + (uint64_t)length;
	if (end > l->size && (end - l->size > ROUNDING || (uint64_t)offset >= l->size))
		return bad(l, "is past the end: it is the list of another volume", err);
	if (length == 0)
		return 0;
	if (end > l->size)
		end = l->size;
	return l->sink->emit(l->sink->arg,
			     &(struct block_extent){.offset = (uint64_t)offset,
						    .length = end - (uint64_t)offset},
			     err);
}

/* A document's head and end are lines of their own. */
static bool take_frame(struct listing *l, const char *line, size_t n)
{
	if (l->line == 1 && n > 1 && line[n - 1] == '[' && strstr(line, "\"block_metadata\"")) {
		l->document = true;
		return true;
	}
	if (l->document && strcmp(line, "]}") == 0) {
		l->ended = true;
		return true;
	}
	return false;
}

static int take_line(struct listing *l, char *line, size_t n, struct cairn_err *err)
{
	json_t *extent;
	int rc;

	l->line++;
	if (n == 0 || line[n - 1] != '\n')
		return bad(l, "has no end: the list was cut short", err);
	line[--n] = '\0';
	if (l->ended && n > 0)
		return bad(l, "is behind the end", err);
	if (n == 0 || take_frame(l, line, n))
		return 0;
	if (n > 0 && line[n - 1] == ',')
		line[--n] = '\0';
	if (n > LINE_MAX_BYTES)
		return bad(l, "is too long", err);
	extent = json_loadb(line, n, 0, NULL);
	rc = take_extent(l, extent, err);
	json_decref(extent);
	return rc;
}

static int check_end(const struct listing *l, struct cairn_err *err)
{
	if (l->document && !l->ended)
		return bad(l, "is the last one: the list was cut short", err);
	if (l->line == 0)
		return cairn_err_set(err, CAIRN_INVALID,
				     "the list of changes is empty, which may be an error of its "
				     "maker; that of 'cairn delta --output json' says so when "
				     "nothing changed");
	return 0;
}

int change_list_read(const char *path, uint64_t size, const struct block_sink *sink,
		     struct cairn_err *err)
{
	cairn_cleanup(fclosep) FILE *file = fopen(path, "re");
	cairn_auto_free char *line = NULL;
	struct listing l = {.sink = sink, .size = size};
	size_t room = 0;
	ssize_t n;
	int rc = 0;

	if (!file)
		return cairn_err_sys(err, errno, "open '%s'", path);
	errno = 0;
	while (!rc && (n = getline(&line, &room, file)) >= 0)
		rc = take_line(&l, line, (size_t)n, err);
	if (!rc && ferror(file))
		return cairn_err_sys(err, errno, "read '%s'", path);
	return rc ? rc : check_end(&l, err);
}
