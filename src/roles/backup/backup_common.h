/* SPDX-License-Identifier: Apache-2.0 */

/* What the commands of `cairn backup` and `cairn mount` share. */
#ifndef CAIRN_ROLES_BACKUP_COMMON_H
#define CAIRN_ROLES_BACKUP_COMMON_H

#include <stdbool.h>
#include <stdint.h>

#include "backup/progress.h"
#include "repo/repo.h"
#include "roles/backup/backup_options.h"

struct cairn_err;
struct repo_snapshot;

enum role_password {
	ROLE_PASSWORD,      /* of the repository */
	ROLE_PASSWORD_NEW,  /* of one to be made: asked for twice */
	ROLE_PASSWORD_FROM, /* of the one that is copied from */
};

struct role_open {
	enum role_password password;
	enum repo_lock_kind lock;
	int level; /* of compression; 0: the default */
	bool init;
	bool init_missing; /* make the repository if there is none */
	bool early;        /* as repo_options.lock_early */
	bool reads;        /* nothing is written: a lock that cannot be had is done without */
	bool *ret_absent;  /* may be NULL: set if there is no repository. CAIRN_NOT_FOUND also means
			    * that the password or the keys are missing. */
};

/* Opens or makes the repository that the flags and the environment name. */
int role_repo_open(const struct cmd_repository *repository, const struct role_open *how,
		   struct repo **ret, struct cairn_err *err);

/* Closes it, if it is open, and prints a note if the reserve for freeing space is gone or smaller than
 * it was. For commands with the exclusive lock, with cairn_cleanup(). */
void role_repo_close(struct repo **repo);

/* "0123abcd": what people are shown of an id. Returns `out`. */
#define ROLE_SHORT_MAX 9
struct repo_id;
const char *role_short_id(const struct repo_id *id, char out[ROLE_SHORT_MAX]);

/* A bar on the terminal, or an event a line as JSON; an interrupt ends the work. */
struct role_progress {
	bool bar;
	bool events;
	bool drawn;
	bool counts;       /* the step's numbers are of things, not of bytes */
	uint64_t begun_ns; /* of the step */
	uint64_t next_ns;
	const char *step;
	struct backup_progress hooks;
};

void role_progress_begin(struct role_progress *progress);
void role_progress_end(struct role_progress *progress);

/* Bytes of a step. `arg` is the progress. */
void role_progress_step(void *arg, const char *step, uint64_t done, uint64_t total);

/* For repo/repo_check.h and repo/prune.h, which count files and packs, and bytes where
 * the step is REPO_CHECK_DATA. */
void role_progress_count(void *arg, const char *step, uint64_t done, uint64_t total);

/* A remark of the work: a line for people, an event for programs. */
void role_say(void *arg, const char *text);

struct backup_result;
struct pool;
struct role_item;

/* Sends the metrics of a backup to the push gateway, if one is given. role_create() does it unless
 * the backup is still to be protected. */
void role_create_push(const struct cmd_backup_create *options, const char *volume,
		      const struct backup_result *result, uint64_t elapsed_ns);

/* Makes a backup in the repository, which is open, and says what it did. `pool` is
 * NULL where the options name a device. `item` (or NULL) gets what came of it. */
int role_create(struct pool *pool, struct repo *repo, const struct cmd_backup_create *options,
		struct role_progress *progress, struct role_item *item, struct cairn_err *err);

/* Writes that a task of a repository ended with `rc` and `err`; nothing where `path` is NULL.
 * Returns `rc`, or that the task is done and its metrics are not written. */
int role_metrics_task(const char *path, const char *family, uint64_t begun_ns, int rc,
		      struct cairn_err *err);

/* True when --output asks for JSON of any kind. */
bool role_json(void);

/* A line of JSON on standard output: {"event": EVENT, and the fields written in between}. */
struct cairn_json;
void role_event_begin(struct cairn_json *json, const char *event);
int role_event_end(struct cairn_json *json, struct cairn_err *err);

/* What a run of several backups did. */
struct role_report {
	uint64_t made;
	uint64_t failed;
	uint64_t skipped;
	uint64_t bytes_read;
	uint64_t bytes_stored;
	uint64_t elapsed_ms;
	bool skips; /* this kind of run can skip items, so the event has that number */
};

void role_report_event(const struct role_report *report);

/* The commands. */
int role_backup_init(const struct cmd_backup_init *options, struct cairn_err *err);
int role_backup_create(const struct cmd_backup_create *options, struct cairn_err *err);
int role_backup_list(const struct cmd_backup_list *options, struct cairn_err *err);
int role_backup_describe(const struct cmd_backup_describe *options, struct cairn_err *err);
int role_backup_restore(const struct cmd_backup_restore *options, struct cairn_err *err);
int role_backup_verify(const struct cmd_backup_verify *options, struct cairn_err *err);
int role_backup_forget(const struct cmd_backup_forget *options, struct cairn_err *err);
int role_backup_copy(const struct cmd_backup_copy *options, struct cairn_err *err);
int role_backup_key(const struct cmd_backup_key *options, struct cairn_err *err);
int role_backup_create_cluster(const struct cmd_backup_create *options, struct cairn_err *err);
int role_backup_create_claims(const struct cmd_backup_create *options, struct cairn_err *err);
int role_backup_restore_cluster(const struct cmd_backup_restore *options, struct cairn_err *err);
int role_mount(const struct cmd_mount *options, struct cairn_err *err);

#endif
