/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/select.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "backup/backup_record.h"
#include "backup/subject.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "repo/repo_snapshot.h"

/* Number of digits with which ids are shown. Shorter ones are also looked up as names of
 * volumes: "feed" may be either. */
#define SHOWN_DIGITS 8

/* Maximum of volumes that an error message names. */
#define NAMED_MAX 8

#define NAMES_BYTES_MAX 512

/* Number of digits of a pool's id that an error message shows. */
#define POOL_DIGITS 8

struct selection {
	const struct backup_choice *choice;
	struct repo_snapshot_list list;
	size_t *subjects;            /* of the entries of the list */
	struct repo_snapshot **fits; /* entries of the list, in its order */
	size_t *fits_subject;
	size_t n;
};

static void selection_done(struct selection *s)
{
	free(s->subjects);
	free(s->fits);
	free(s->fits_subject);
	repo_snapshot_list_done(&s->list);
}

static const char *select_host_of(const struct repo_snapshot *snapshot)
{
	return snapshot->hostname ? snapshot->hostname : "";
}

static bool select_is_of_volume(const struct backup_record *record, const char *volume)
{
	return record->ours &&
	       (strcmp(record->volume, volume) == 0 || strcmp(record->volume_id, volume) == 0);
}

/* True if `text` is "VOLUME@SNAPSHOT". Both names may contain an '@'. */
static bool is_pair(const char *text, const char *volume, const char *snapshot)
{
	size_t n = strlen(volume);

	return n > 0 && strncmp(text, volume, n) == 0 && text[n] == '@' &&
	       strcmp(text + n + 1, snapshot) == 0;
}

static bool is_of_snapshot(const struct backup_record *record, const char *text)
{
	return record->ours && (strcmp(record->snapshot_id, text) == 0 ||
				is_pair(text, record->volume, record->snapshot) ||
				is_pair(text, record->volume_id, record->snapshot));
}

static bool passes_filters(const struct backup_choice *choice, const struct repo_snapshot *snapshot)
{
	struct backup_record record = backup_record_of(snapshot);

	return (!choice->volume || select_is_of_volume(&record, choice->volume)) &&
	       (!choice->pool || backup_record_is_of_pool(&record, choice->pool)) &&
	       (!choice->host || strcmp(select_host_of(snapshot), choice->host) == 0);
}

enum form {
	FORM_LATEST,
	FORM_SNAPSHOT,
	FORM_VOLUME,
};

static bool has_form(const struct repo_snapshot *snapshot, const char *name, enum form form)
{
	struct backup_record record = backup_record_of(snapshot);

	switch (form) {
	case FORM_SNAPSHOT:
		return is_of_snapshot(&record, name);
	case FORM_VOLUME:
		return select_is_of_volume(&record, name);
	case FORM_LATEST:
		break;
	}
	return true;
}

static void select_collect(struct selection *s, enum form form)
{
	s->n = 0;
	for (size_t i = 0; i < s->list.n; i++)
		if (passes_filters(s->choice, s->list.items[i]) &&
		    has_form(s->list.items[i], s->choice->name, form)) {
			s->fits_subject[s->n] = s->subjects[i];
			s->fits[s->n++] = s->list.items[i];
		}
}

/* Subjects of one host and name, such as a file and a volume, or volumes of two pools, are
 * distinguished by their ids. */
static bool shares_name(const struct selection *s, size_t i)
{
	for (size_t k = 0; k < s->n; k++)
		if (s->fits_subject[k] != s->fits_subject[i] &&
		    strcmp(select_host_of(s->fits[k]), select_host_of(s->fits[i])) == 0 &&
		    strcmp(backup_subject_name(s->fits[k]), backup_subject_name(s->fits[i])) == 0)
			return true;
	return false;
}

static bool is_listed_before(const struct selection *s, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (s->fits_subject[k] == s->fits_subject[i])
			return true;
	return false;
}

/* " (id vol-1, pool 0123abcd in /srv/pool)" */
static void add_ids(struct cairn_buf *text, const struct repo_snapshot *snapshot)
{
	struct backup_record record = backup_record_of(snapshot);

	cairn_buf_addf(text, " (id %s", record.volume_id);
	if (*record.pool_id)
		cairn_buf_addf(text, ", pool %.*s in %s", POOL_DIGITS, record.pool_id,
			       record.pool_dir);
	cairn_buf_addc(text, ')');
}

/* "data on host1, logs on host1": the first few, or "" when memory is short. */
static char *list_subjects(const struct selection *s)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(NAMES_BYTES_MAX);
	unsigned n = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (is_listed_before(s, i))
			continue;
		if (n++ == NAMED_MAX) {
			cairn_buf_addf(&text, ", ...");
			break;
		}
		cairn_buf_addf(&text, "%s%s on %s", n > 1 ? ", " : "",
			       backup_subject_name(s->fits[i]), select_host_of(s->fits[i]));
		if (shares_name(s, i))
			add_ids(&text, s->fits[i]);
	}
	return cairn_buf_take_string(&text);
}

static int check_one_subject(const struct selection *s, struct cairn_err *err)
{
	cairn_auto_free char *names = NULL;

	for (size_t i = 1; i < s->n; i++) {
		if (s->fits_subject[0] == s->fits_subject[i])
			continue;
		names = list_subjects(s);
		return cairn_err_set(err, CAIRN_INVALID,
				     "'%s' could be a backup of several volumes (%s): name a "
				     "backup's id, VOLUME or VOLUME@SNAPSHOT, or choose with "
				     "--volume, --host or --pool-id",
				     s->choice->name, names ? names : "");
	}
	return 0;
}

static bool is_snapshot_id(const struct selection *s)
{
	return strcmp(backup_record_of(s->fits[0]).snapshot_id, s->choice->name) == 0;
}

/* Finds the newest match. CAIRN_NOT_FOUND does not set `err`. */
static int select_newest(struct selection *s, enum form form, struct repo_snapshot **ret,
			 struct cairn_err *err)
{
	struct repo_snapshot *newest;
	int rc;

	select_collect(s, form);
	if (s->n == 0)
		return CAIRN_NOT_FOUND;
	rc = check_one_subject(s, err);
	if (rc)
		return rc;
	if (s->choice->only && form != FORM_LATEST && s->n > 1)
		return cairn_err_set(err, CAIRN_INVALID, "it names %zu backups: write one's id",
				     s->n);
	/* Backups of one snapshot hold the same bytes, so any of them will do. A name may have
	 * been given to a second snapshot after the first was deleted. */
	if (s->list.damaged && !(form == FORM_SNAPSHOT && is_snapshot_id(s)))
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "a backup cannot be read and may be the newest: %s; one that "
				     "can is chosen by its id",
				     s->list.damaged_text);
	newest = s->fits[repo_snapshot_newest(s->fits, s->n)];
	for (size_t i = 0; i < s->list.n; i++)
		if (s->list.items[i] == newest)
			*ret = cairn_take(s->list.items[i]);
	return 0;
}

static int select_not_found(const struct selection *s, struct cairn_err *err)
{
	const struct backup_choice *choice = s->choice;

	if (s->list.damaged)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "a backup cannot be read and may be '%s': %s", choice->name,
				     s->list.damaged_text);
	return cairn_err_set(err, CAIRN_NOT_FOUND, "there is no backup '%s'%s%s%s%s%s%s",
			     choice->name, choice->volume ? " of volume " : "",
			     choice->volume ? choice->volume : "", choice->host ? " of host " : "",
			     choice->host ? choice->host : "", choice->pool ? " of pool " : "",
			     choice->pool ? choice->pool : "");
}

static int load_list(struct selection *s, struct repo *repo, struct cairn_err *err)
{
	int rc = repo_snapshot_list(repo, &s->list, err);

	if (rc)
		return rc;
	s->fits = cairn_calloc(s->list.n + 1, sizeof(struct repo_snapshot *));
	s->fits_subject = cairn_calloc(s->list.n + 1, sizeof(size_t));
	if (!s->fits || !s->fits_subject)
		return cairn_err_nomem(err, "list of backups");
	return backup_subject_number(s->list.items, s->list.n, BACKUP_SUBJECT_TO_FIND, &s->subjects,
				     err);
}

static int backup_select_by_name(struct repo *repo, const struct backup_choice *choice,
				 struct repo_snapshot **ret, struct cairn_err *err)
{
	cairn_cleanup(selection_done) struct selection s = {.choice = choice};
	int rc = load_list(&s, repo, err);

	if (rc)
		return rc;
	if (strcmp(choice->name, "latest") == 0)
		rc = select_newest(&s, FORM_LATEST, ret, err);
	else
		rc = select_newest(&s, FORM_SNAPSHOT, ret, err);
	if (rc == CAIRN_NOT_FOUND)
		rc = select_newest(&s, FORM_VOLUME, ret, err);
	return rc == CAIRN_NOT_FOUND ? select_not_found(&s, err) : rc;
}

/* Refuses an id with fewer digits than shown if a volume or a snapshot has the same name. */
static int check_not_a_name(struct repo *repo, const struct backup_choice *choice,
			    struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *named = NULL;
	struct cairn_err ignored = {0};
	int rc;

	if (strlen(choice->name) >= SHOWN_DIGITS)
		return 0;
	rc = backup_select_by_name(repo, choice, &named, &ignored);
	if (rc == CAIRN_NOT_FOUND)
		return 0;
	if (rc && rc != CAIRN_INVALID) {
		if (err)
			*err = ignored;
		return rc;
	}
	return cairn_err_set(err, CAIRN_INVALID,
			     "'%s' is a volume's name and begins a backup's id: write more of the "
			     "id, or 'latest --volume %s'",
			     choice->name, choice->name);
}

/* The backup exists: CAIRN_NOT_FOUND would make `forget --ignore-missing` take it for forgotten. */
static int check_filters(const struct backup_choice *choice, const struct repo_snapshot *found,
			 struct cairn_err *err)
{
	if (passes_filters(choice, found))
		return 0;
	return cairn_err_set(err, CAIRN_INVALID,
			     "backup '%s' is of %s on host %s, not of what was asked for",
			     choice->name, backup_subject_name(found), select_host_of(found));
}

int backup_select(struct repo *repo, const struct backup_choice *choice, struct repo_snapshot **ret,
		  struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *found = NULL;
	bool may_be_id = strspn(choice->name, "0123456789abcdef") == strlen(choice->name);
	int rc = CAIRN_NOT_FOUND;

	if (!*choice->name)
		return cairn_err_set(err, CAIRN_INVALID, "a backup's name must not be empty");
	if (may_be_id)
		rc = repo_snapshot_find(repo, choice->name, &found, err);
	if (rc == CAIRN_NOT_FOUND)
		return backup_select_by_name(repo, choice, ret, err);
	if (!rc)
		rc = check_filters(choice, found, err);
	if (!rc)
		rc = check_not_a_name(repo, choice, err);
	if (!rc)
		*ret = cairn_take(found);
	return rc;
}
