/* SPDX-License-Identifier: Apache-2.0 */

/* A check while it runs. */
#ifndef CAIRN_REPO_CHECK_IMPL_H
#define CAIRN_REPO_CHECK_IMPL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/check.h"
#include "repo/index.h"
#include "repo/names.h"
#include "repo/walk.h"

struct repo_pack_blob;

struct repo_checking {
	struct repo *repo;
	const struct repo_check_options *options;
	struct repo_names snapshots; /* that are looked at */
	struct repo_names packs;     /* in the store */
	struct repo_index_order order;
	struct repo_walk walk;
	pthread_mutex_t mutex; /* guards `stats` and the caller's functions */
	struct repo_check_stats stats;
	uint64_t bytes_total; /* that will be read */
};

void repo_check_problem(struct repo_checking *checking, int code, const char *text);
void repo_check_progress(struct repo_checking *checking, const char *step, uint64_t done,
			 uint64_t total);

/* Tells of what is damaged or missing, and goes on; other errors are passed on. */
int repo_check_result(struct repo_checking *checking, int rc, const struct cairn_err *why,
		      struct cairn_err *err);

/* What the index says of a pack, by offset; *ret is the caller's. */
int repo_check_blobs_of(struct repo_checking *checking, uint32_t pack, struct repo_pack_blob **ret,
			size_t *ret_n, struct cairn_err *err);

/* Reads all packs, or those that hold something marked. */
int repo_check_data(struct repo_checking *checking, struct cairn_err *err);

#endif
