/* SPDX-License-Identifier: Apache-2.0 */

/* State of a running check. */
#ifndef CAIRN_REPO_CHECK_IMPL_H
#define CAIRN_REPO_CHECK_IMPL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/index.h"
#include "repo/names.h"
#include "repo/repo_check.h"
#include "repo/walk.h"

struct repo_pack_blob;

struct repo_checking {
	struct repo *repo;
	const struct repo_check_options *options;
	struct repo_names snapshots; /* those that are checked */
	struct repo_names indexes;   /* files that were loaded */
	struct repo_names packs;     /* in the store */
	struct repo_index_order order;
	struct repo_walk walk;
	uint32_t entries;      /* size of the index when the packs were examined */
	pthread_mutex_t mutex; /* guards `stats`, calls of the caller's functions, and: */
	uint64_t *bad_entries; /* a bit for each entry that cannot be read */
	bool *bad_packs;       /* packs with any fault */
	struct repo_check_stats stats;
	uint64_t bytes_total; /* to be read */
	bool *chosen;         /* packs of the subset; NULL: all */
};

void repo_check_problem(struct repo_checking *checking, int code, const char *text);
void repo_check_progress(struct repo_checking *checking, const char *step, uint64_t done,
			 uint64_t total);

/* Reports damaged or missing objects and returns 0; other errors are returned. */
int repo_check_result(struct repo_checking *checking, int rc, const struct cairn_err *why,
		      struct cairn_err *err);

/* The index entries of a pack, by offset; *ret is owned by the caller. */
int repo_check_blobs_of(struct repo_checking *checking, uint32_t pack, struct repo_pack_blob **ret,
			size_t *ret_n, struct cairn_err *err);

/* Reads all packs, or those that hold marked blobs. */
int repo_check_data(struct repo_checking *checking, struct cairn_err *err);
/* Fills `chosen` if a subset was requested. */
int repo_check_choose(struct repo_checking *checking, struct cairn_err *err);
/* Reads one pack, if it is in the store. */
int repo_check_pack_data(struct repo_checking *checking, uint32_t pack, struct cairn_err *err);

/* `i` counts the blobs of the pack by offset. */
void repo_check_mark_blob(struct repo_checking *checking, uint32_t pack, size_t i);
void repo_check_mark_pack(struct repo_checking *checking, uint32_t pack);
bool repo_check_is_bad(const struct repo_checking *checking, uint32_t entry);
/* True when a copy of the blob can be read from a pack without any fault or, with `any`,
 * from any pack. *ret_size (0: not known) is its plain size. */
bool repo_check_has_blob(struct repo_checking *checking, enum repo_blob_type type,
			 const struct repo_id *id, bool any, uint64_t *ret_size);

/* Reports the lost parts of each snapshot. */
int repo_check_damage(struct repo_checking *checking, struct cairn_err *err);

/* Removes bad packs from the index. */
int repo_repair_packs(struct repo_checking *checking, struct cairn_err *err);

#endif
