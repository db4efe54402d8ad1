/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/metrics_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#define FILE_MAX_BYTES (16U << 20)
#define FILE_MODE      0644

enum value { LAST_SUCCESS, LAST_ATTEMPT, SUCCEEDED, SECONDS, SIZE, READ, STORED, VALUES };

static const struct {
	const char *name;
	const char *help;
	bool of_backup; /* only for tasks that have volumes */
} values[VALUES] = {
	[LAST_SUCCESS] = {"last_success_timestamp_seconds",
			  "When the last success ended; 0 before the first.", false},
	[LAST_ATTEMPT] = {"last_attempt_timestamp_seconds", "When the last attempt ended.", false},
	[SUCCEEDED] = {"last_attempt_success", "1 when the last attempt was a success.", false},
	[SECONDS] = {"duration_seconds", "How long the last success took.", false},
	[SIZE] = {"size_bytes", "Size of the volume at the last success.", true},
	[READ] = {"read_bytes", "What the last success read.", true},
	[STORED] = {"stored_bytes", "What the repository grew by at the last success.", true},
};

struct entry {
	char *label; /* the text between the quotes, escaped; "" if there is none */
	double at[VALUES];
	bool sampled;
};

struct table {
	const char *family;
	struct entry *entries;
	size_t n;
};

static void table_done(struct table *table)
{
	for (size_t i = 0; i < table->n; i++)
		free(table->entries[i].label);
	free(table->entries);
}

static struct entry *metrics_file_find(struct table *table, const char *label, size_t n)
{
	for (size_t i = 0; i < table->n; i++)
		if (strlen(table->entries[i].label) == n &&
		    memcmp(table->entries[i].label, label, n) == 0)
			return &table->entries[i];
	return NULL;
}

/* Finds or adds the entry of a label; NULL if memory is short. */
static struct entry *metrics_file_get(struct table *table, const char *label, size_t n)
{
	struct entry *found = metrics_file_find(table, label, n);
	struct entry *more;
	char *copy;

	if (found)
		return found;
	more = cairn_realloc_array(table->entries, table->n + 1, sizeof(*more));
	if (!more)
		return NULL;
	table->entries = more;
	copy = cairn_strndup(label, n);
	if (!copy)
		return NULL;
	more[table->n] = (struct entry){.label = copy};
	return &more[table->n++];
}

/* ---- what was known ------------------------------------------------------------ */

/* The end of a label's text: the quote that is not escaped. */
static const char *end_of_label(const char *text)
{
	for (; *text && *text != '"'; text++)
		if (*text == '\\' && text[1])
			text++;
	return *text ? text : NULL;
}

/* Parses a line 'FAMILY_NAME{volume="..."} VALUE', with or without the label; skips other lines. */
static int metrics_file_take_line(struct table *table, const char *line, struct cairn_err *err)
{
	size_t family = strlen(table->family);
	const char *label = "";
	size_t label_n = 0;

	if (strncmp(line, table->family, family) != 0 || line[family] != '_')
		return 0;
	line += family + 1;
	for (int i = 0; i < VALUES; i++) {
		size_t n = strlen(values[i].name);
		const char *rest = line + n;
		struct entry *entry;
		char *end;
		double value;

		if (strncmp(line, values[i].name, n) != 0 || (*rest != ' ' && *rest != '{'))
			continue;
		if (strncmp(rest, "{volume=\"", 9) == 0) {
			const char *quote = end_of_label(rest + 9);

			if (!quote || strncmp(quote, "\"} ", 3) != 0)
				return 0;
			label = rest + 9;
			label_n = (size_t)(quote - label);
			rest = quote + 2;
		}
		value = strtod(rest, &end);
		if (end == rest)
			return 0;
		entry = metrics_file_get(table, label, label_n);
		if (!entry)
			return cairn_err_nomem(err, "metrics");
		entry->at[i] = value;
		return 0;
	}
	return 0;
}

/* The replaced target must be a regular file: not /dev/null, and not a pipe that a
 * process reads. */
static int metrics_file_check_kind(const char *path, struct cairn_err *err)
{
	struct stat st;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return cairn_err_set(err, CAIRN_PRECONDITION, "'%s' is not a regular file", path);
	return 0;
}

static int metrics_file_load(struct table *table, const char *path, struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct cairn_err why = {0};
	size_t n;
	char *rest;
	int rc = cairn_file_read(AT_FDCWD, path, FILE_MAX_BYTES, &text, &n, &why);

	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc) {
		if (err)
			*err = why;
		return rc;
	}
	rest = text;
	for (char *line = strsep(&rest, "\n"); line && !rc; line = strsep(&rest, "\n"))
		rc = metrics_file_take_line(table, line, err);
	return rc;
}

/* ---- what is new --------------------------------------------------------------- */

static char *metrics_file_escape(const char *volume)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(FILE_MAX_BYTES);

	for (const char *p = volume ? volume : ""; *p; p++) {
		if (*p == '\\' || *p == '"')
			cairn_buf_addc(&text, '\\');
		if (*p == '\n')
			cairn_buf_adds(&text, "\\n");
		else
			cairn_buf_addc(&text, *p);
	}
	return cairn_buf_take_string(&text);
}

static double metrics_file_now_seconds(void)
{
	return (double)cairn_now_ns() / (double)CAIRN_NS_PER_SEC;
}

static int put_sample(struct table *table, const struct metrics_sample *sample,
		      struct cairn_err *err)
{
	cairn_auto_free char *label = metrics_file_escape(sample->volume);
	struct entry *entry = label ? metrics_file_get(table, label, strlen(label)) : NULL;

	if (!entry)
		return cairn_err_nomem(err, "metrics");
	entry->sampled = true;
	entry->at[LAST_ATTEMPT] = metrics_file_now_seconds();
	entry->at[SUCCEEDED] = sample->ok;
	if (!sample->ok)
		return 0;
	entry->at[LAST_SUCCESS] = entry->at[LAST_ATTEMPT];
	entry->at[SECONDS] = sample->seconds;
	entry->at[SIZE] = (double)sample->size_bytes;
	entry->at[READ] = (double)sample->read_bytes;
	entry->at[STORED] = (double)sample->stored_bytes;
	return 0;
}

static void settle_others(struct table *table, const struct metrics_how *how)
{
	size_t kept = 0;

	for (size_t i = 0; i < table->n; i++) {
		struct entry *entry = &table->entries[i];

		if (!entry->sampled && how->drop_others) {
			free(entry->label);
			continue;
		}
		if (!entry->sampled && how->others_failed) {
			entry->at[LAST_ATTEMPT] = metrics_file_now_seconds();
			entry->at[SUCCEEDED] = 0;
		}
		table->entries[kept++] = *entry;
	}
	table->n = kept;
}

static void write_value(struct cairn_buf *text, const struct table *table, enum value value)
{
	const char *name = values[value].name;

	cairn_buf_addf(text, "# HELP %s_%s %s\n# TYPE %s_%s gauge\n", table->family, name,
		       values[value].help, table->family, name);
	for (size_t i = 0; i < table->n; i++) {
		const struct entry *entry = &table->entries[i];

		cairn_buf_addf(text, "%s_%s", table->family, name);
		if (*entry->label)
			cairn_buf_addf(text, "{volume=\"%s\"}", entry->label);
		cairn_buf_addf(text, " %.17g\n", entry->at[value]);
	}
}

/* Write under another name first: the collector reads every file that ends in ".prom". */
static int metrics_file_replace(const char *path, const struct cairn_buf *text,
				struct cairn_err *err)
{
	cairn_auto_free char *temporary = cairn_printf("%s.XXXXXX", path);
	cairn_auto_fd int fd = -1;
	int rc = 0;

	if (!temporary)
		return cairn_err_nomem(err, "metrics");
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return cairn_err_sys(err, errno, "make '%s'", temporary);
	if (cairn_write_full(fd, text->data, text->len) < 0 || fchmod(fd, FILE_MODE) < 0 ||
	    fsync(fd) < 0)
		rc = cairn_err_sys(err, errno, "write '%s'", temporary);
	else if (rename(temporary, path) < 0)
		rc = cairn_err_sys(err, errno, "rename '%s'", temporary);
	if (rc)
		unlink(temporary);
	return rc;
}

int backup_metrics_file_write(const char *path, const struct metrics_how *how,
			      const struct metrics_sample *samples, size_t n, struct cairn_err *err)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(FILE_MAX_BYTES);
	cairn_cleanup(table_done) struct table table = {.family = how->family};
	bool backup = strcmp(how->family, METRICS_BACKUP) == 0;
	int rc = metrics_file_check_kind(path, err);

	if (!rc)
		rc = metrics_file_load(&table, path, err);
	for (size_t i = 0; i < n && !rc; i++)
		rc = put_sample(&table, &samples[i], err);
	if (rc)
		return rc;
	settle_others(&table, how);
	for (int i = 0; i < VALUES; i++)
		if (backup || !values[i].of_backup)
			write_value(&text, &table, (enum value)i);
	if (cairn_buf_failed(&text))
		return cairn_err_nomem(err, "metrics");
	return metrics_file_replace(path, &text, err);
}
