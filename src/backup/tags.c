/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/tags.h"

#include <stdlib.h>
#include <string.h>

#include "backup/backup_record.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/flags.h"
#include "base/mem.h"
#include "base/text.h"
#include "repo/repo_snapshot.h"

#define TAG_BYTES_MAX  256U
#define TEXT_BYTES_MAX (1U << 20)

void backup_tag_list_done(struct tags *tags)
{
	for (size_t i = 0; i < tags->n; i++)
		free(tags->at[i]);
	*tags = (struct tags){0};
}

static int check_tag(const char *tag, size_t n, struct cairn_err *err)
{
	if (n == 0)
		return cairn_err_set(err, CAIRN_INVALID, "a tag must not be empty");
	if (n > TAG_BYTES_MAX || !cairn_text_printable(tag, n))
		return cairn_err_set(
			err, CAIRN_INVALID,
			"a tag has at most %u bytes of UTF-8 without control characters",
			TAG_BYTES_MAX);
	if (backup_tag_is_own(tag, n))
		return cairn_err_set(
			err, CAIRN_INVALID,
			"the tag '%.*s' has the form of those that Cairn itself writes", (int)n,
			tag);
	return 0;
}

static bool tags_has(const struct tags *tags, const char *tag, size_t n)
{
	for (size_t i = 0; i < tags->n; i++)
		if (strlen(tags->at[i]) == n && memcmp(tags->at[i], tag, n) == 0)
			return true;
	return false;
}

static int tags_add_tag(struct tags *tags, const char *tag, size_t n, struct cairn_err *err)
{
	int rc = check_tag(tag, n, err);

	if (rc || tags_has(tags, tag, n))
		return rc;
	if (tags->n == TAGS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "a backup has at most %u tags", TAGS_MAX);
	tags->at[tags->n] = cairn_strndup(tag, n);
	if (!tags->at[tags->n])
		return cairn_err_nomem(err, "tags");
	tags->n++;
	return 0;
}

/* Returns the next item of "a,b,c"; *rest becomes NULL after the last. */
static const char *next_tag(const char **rest, size_t *ret_n)
{
	const char *tag = *rest;
	const char *comma = strchr(tag, ',');

	*ret_n = comma ? (size_t)(comma - tag) : strlen(tag);
	*rest = comma ? comma + 1 : NULL;
	return tag;
}

int backup_tag_list_parse(const struct cairn_strings *lists, struct tags *ret,
			  struct cairn_err *err)
{
	struct tags tags = {0};
	int rc = 0;

	for (size_t i = 0; i < lists->n && !rc; i++) {
		const char *rest = lists->at[i];

		while (rest && !rc) {
			size_t n;
			const char *tag = next_tag(&rest, &n);

			rc = tags_add_tag(&tags, tag, n, err);
		}
	}
	if (rc)
		backup_tag_list_done(&tags);
	else
		*ret = tags;
	return rc;
}

static bool snapshot_has(const struct repo_snapshot *snapshot, const char *tag, size_t n)
{
	for (size_t i = 0; i < snapshot->n_tags; i++)
		if (strlen(snapshot->tags[i]) == n && memcmp(snapshot->tags[i], tag, n) == 0)
			return true;
	return false;
}

bool backup_tag_list_match(const struct repo_snapshot *snapshot, const struct cairn_strings *lists)
{
	for (size_t i = 0; i < lists->n; i++) {
		const char *rest = lists->at[i];
		bool all = true;

		while (rest && all) {
			size_t n;
			const char *tag = next_tag(&rest, &n);

			all = snapshot_has(snapshot, tag, n);
		}
		if (all)
			return true;
	}
	return lists->n == 0;
}

char *backup_tag_list_text(const struct repo_snapshot *snapshot)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(TEXT_BYTES_MAX);
	bool first = true;

	for (size_t i = 0; i < snapshot->n_tags; i++) {
		const char *tag = snapshot->tags[i];

		if (backup_tag_is_own(tag, strlen(tag)))
			continue;
		cairn_buf_addf(&text, "%s%s", first ? "" : ",", tag);
		first = false;
	}
	return cairn_buf_take_string(&text);
}
