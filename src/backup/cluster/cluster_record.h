/* SPDX-License-Identifier: Apache-2.0 */

/* The record of the backups of a claim to one repository: an annotation of the claim, which
 * `cairn manager --backups` turns into metrics. Pure.
 *
 * Who may change the claim may write any text there, so everything is checked when it is read. A
 * record of another claim, which came with a copy of the annotations, is ignored.
 */
#ifndef CAIRN_BACKUP_CLUSTER_RECORD_H
#define CAIRN_BACKUP_CLUSTER_RECORD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

/* Of the annotation; the key of the repository follows (cluster_objects.h). */
#define CLUSTER_RECORD_PREFIX "backup.cairn.csi.dev/"

#define CLUSTER_RECORD_TEXT_MAX   2048U
#define CLUSTER_RECORD_NAME_MAX   128
#define CLUSTER_RECORD_NUMBER_MAX ((uint64_t)INT64_MAX)

enum cluster_record_mode {
	CLUSTER_RECORD_UNKNOWN,
	CLUSTER_RECORD_CHANGED,
	CLUSTER_RECORD_ALLOCATED,
	CLUSTER_RECORD_FULL,
};

struct cluster_record {
	char repository[CLUSTER_RECORD_NAME_MAX]; /* as it was named, without secrets */
	uint64_t attempt_s;                       /* since 1970: end of the last run */
	bool ok;                                  /* of the last run */
	uint64_t success_s;                       /* end of the last backup; 0: none */
	/* Of the last backup. */
	enum cluster_record_mode mode;
	uint64_t seconds;
	uint64_t size;
	uint64_t changed;
	uint64_t read;
	uint64_t stored;
	/* Since the claim was created. */
	uint64_t backups;
	uint64_t failures;
	uint64_t fallbacks; /* backups that read more than what changed since an earlier one */
};

/* False if the text is not a record of the claim with that uid. */
bool backup_cluster_record_parse(const char *text, const char *uid, struct cluster_record *ret);

/* *ret is owned by the caller. */
int backup_cluster_record_text(const struct cluster_record *record, const char *uid, char **ret,
			       struct cairn_err *err);

/* Adds a run that failed. */
void backup_cluster_record_failure(struct cluster_record *record, uint64_t now_s);

/* Adds a backup; `summary` is what the Job said of it, or NULL. Returns true if it fell back: it
 * read more than what changed, although there was a backup to build on and nobody asked for it. */
bool backup_cluster_record_success(struct cluster_record *record, const json_t *summary,
				   uint64_t now_s, uint64_t seconds);

/* "changed", "allocated", "full", or "". */
const char *backup_cluster_record_mode_name(enum cluster_record_mode mode);

#endif
