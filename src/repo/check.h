/* SPDX-License-Identifier: Apache-2.0 */

/* Is everything there, and is it what was written?
 *
 * The structure: every index, every snapshot, every tree reachable, every blob a
 * file needs in an index, every pack there with the size its index says, sizes
 * of files equal to the sum of their content. With `read_data` also every byte
 * of every pack: its hash, its header against the index, every blob's
 * authentication code, size and hash.
 */
#ifndef CAIRN_REPO_CHECK_H
#define CAIRN_REPO_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "repo/id.h"

struct cairn_err;
struct repo;

struct repo_check_options {
	bool read_data;
	/* Only what this snapshot needs; NULL: all. */
	const struct repo_id *snapshot;
	/* Called for each problem, from one thread at a time; must not call the
	 * repository. `text` names the file. */
	void (*problem)(void *arg, int code, const char *text);
	/* Things done, of how many; bytes where the step is REPO_CHECK_DATA. */
	void (*progress)(void *arg, const char *step, uint64_t done, uint64_t total);
	void *arg;
};

#define REPO_CHECK_DATA "data"

struct repo_check_stats {
	uint64_t problems;
	uint64_t snapshots, trees, files, packs, blobs;
	uint64_t packs_unknown; /* in no index: left by a writer that died; no problem */
	uint64_t bytes_read;
};

/* Loads the index itself, file by file. 0 when it ran to its end, whatever it
 * found: look at ret->problems. Any lock will do.
 *
 * CAIRN_CANCELLED  asked for (repo_store_options.cancelled)
 */
int repo_check(struct repo *repo, const struct repo_check_options *options,
	       struct repo_check_stats *ret, struct cairn_err *err);

#endif
