/* SPDX-License-Identifier: Apache-2.0 */

/* Reads trees ahead. A backup stores its trees one after the other, the root last, and a reader
 * wants them in the reverse order: each would be a round trip to the store. If a tree is near the
 * beginning of its pack, all that precedes it there is read with it and kept, of one pack at a time
 * and only a few times: a walk over all trees jumps between packs.
 */
#ifndef CAIRN_REPO_TREE_AHEAD_H
#define CAIRN_REPO_TREE_AHEAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "repo/id.h"

struct repo;
struct repo_place;
struct cairn_err;

#define REPO_TREE_AHEAD       ((uint64_t)512 << 10)
#define REPO_TREE_AHEAD_TIMES 4U

struct repo_tree_ahead {
	pthread_mutex_t mutex; /* guards what follows */
	struct repo_id pack;
	uint8_t *data; /* its first bytes, or NULL */
	size_t n;
	unsigned times; /* that it was read so far */
};

void repo_tree_ahead_init(struct repo_tree_ahead *ahead);
void repo_tree_ahead_done(struct repo_tree_ahead *ahead);

/* As repo_read() of the sealed blob at `place`. */
int repo_tree_ahead_read(struct repo *repo, const struct repo_place *place, uint8_t *out,
			 struct cairn_err *err);

#endif
