/* SPDX-License-Identifier: Apache-2.0 */

/* Questions to a SnapshotMetadata service; the answers come on the caller's thread. */
#ifndef CAIRN_ROLES_LISTING_RUN_H
#define CAIRN_ROLES_LISTING_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_block;
struct cairn_client_options;
struct cairn_err;
struct cairn_listing_info;
struct cairn_listing_query;
struct store_progress;

struct client_watch {
	/* A message came; a negative code ends the listing. */
	int (*message)(void *arg, const struct cairn_listing_info *info,
		       const struct cairn_block *blocks, size_t n, struct cairn_err *err);
	/* Asked ten times a second, on another thread. */
	bool (*cancelled)(void *arg);
	void *arg;
};

/* Lists until the end; *ret_info is how far it came, in any case. */
int client_listing_run(const struct cairn_client_options *options,
		       const struct cairn_listing_query *query, const struct client_watch *watch,
		       struct cairn_listing_info *ret_info, struct cairn_err *err);

/* A part of the volume in which both answers are the same. */
struct client_segment {
	uint64_t offset, length;
	bool is_changed;
	bool is_allocated;
};

struct client_pair_watch {
	/* Called once, before any segment. */
	int (*begin)(void *arg, uint64_t capacity, struct cairn_err *err);
	/* In ascending order; parts that are neither are left out. */
	int (*segment)(void *arg, const struct client_segment *segment, struct cairn_err *err);
	bool (*cancelled)(void *arg); /* as above */
	void *arg;
};

/* Lists changed and allocated blocks at the same time, and calls `watch` with both together.
 * Nothing is collected: memory does not depend on the number of blocks. */
int client_listing_pair_run(const struct cairn_client_options *options,
			    const struct cairn_listing_query *changed,
			    const struct cairn_listing_query *allocated,
			    const struct client_pair_watch *watch, struct cairn_err *err);

struct client_copy_options {
	const struct cairn_client_options *options;
	const struct cairn_listing_query *query;
	const char *source, *target;
	const struct store_progress *copying;
	const struct store_progress *comparing;
};

struct client_copy_result {
	uint64_t capacity; /* as the listing says */
	uint64_t listed_blocks, listed_bytes;
	uint64_t copied_bytes;
	uint64_t compared_bytes;
	uint64_t differing_bytes;
	uint64_t first_difference;
};

/* Copies what is listed from device to device, then compares them: client/mirror.h. */
int client_copy_run(const struct client_copy_options *options, struct client_copy_result *ret,
		    struct cairn_err *err);

#endif
