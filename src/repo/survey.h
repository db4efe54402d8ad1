/* SPDX-License-Identifier: Apache-2.0 */

/* The names of a repository's small files, all from one listing where the store can.
 *
 * Keys, locks, index files and snapshots are listed when a repository is opened and, except for
 * keys, once more when an early lock is settled. In S3 these are two requests instead of six.
 * The first listing is older than the lock: what was taken from it is compared with the second
 * (settle.c).
 */
#ifndef CAIRN_REPO_SURVEY_H
#define CAIRN_REPO_SURVEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "repo/names.h"
#include "repo/repo_store.h"

struct cairn_err;

/* Older names are listed again. */
#define REPO_SURVEY_FRESH_MS 10000U

struct repo_survey {
	struct repo_names names[REPO_FILE_KINDS]; /* sorted */
	bool has[REPO_FILE_KINDS];
	bool at_once; /* locks are not older than index files: repo_store_list_rest() */
	uint64_t taken_ms;
};

/* Lists at least the `n` kinds, in this order if each takes a request of its own. */
int repo_survey_take(struct repo_store *store, const enum repo_file *kinds, size_t n,
		     struct repo_survey *ret, struct cairn_err *err);

/* Moves the names of a kind to *ret, once. False if there are none, or they are not fresh. */
bool repo_survey_use(struct repo_survey *survey, enum repo_file kind, struct repo_names *ret);

void repo_survey_done(struct repo_survey *survey);

#endif
