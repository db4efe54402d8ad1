/* SPDX-License-Identifier: Apache-2.0 */

/* The last step of a backup: trees, metadata and the snapshot. */
#ifndef CAIRN_BACKUP_SAVE_H
#define CAIRN_BACKUP_SAVE_H

#include <stdint.h>

struct backup_create_options;
struct backup_result;
struct backup_source;
struct cairn_err;
struct plan;
struct repo;
struct repo_id;
struct segmented_result;
struct zeros;

struct save_spec {
	const struct backup_source *source;
	const struct backup_create_options *options;
	const struct plan *plan;                  /* with no chunk left to be read */
	const struct segmented_result *segmented; /* instead of the plan's chunks; or NULL */
	uint64_t segment;                         /* the length of a segment */
	struct zeros *zeros;
	const char *parent_snapshot_id;    /* or NULL */
	const struct repo_id *parent_tree; /* or NULL; with segments */
	uint64_t begun_ns;
	uint64_t stored_before; /* what the repository had stored before */
};

/* Fills id and bytes_stored of `result`; its other fields are saved. All chunks of the
 * backup must have been put, or found in the index. */
int backup_write_snapshot(struct repo *repo, const struct save_spec *spec,
			  struct backup_result *result, struct cairn_err *err);

#endif
