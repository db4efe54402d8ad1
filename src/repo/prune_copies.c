/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/prune_copies.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "repo/blob_impl.h"
#include "repo/index.h"
#include "repo/repo_impl.h"
#include "repo/walk.h"

struct copies {
	struct repo *repo;
	struct repo_walk *walk;
	uint32_t *entries; /* marked entries that have other copies */
	size_t n;
	pthread_mutex_t mutex; /* guards the marks */
};

/* Finds the marked entry of the blob of which `entry` is another copy; false if there is none. */
static bool marked_copy(struct copies *copies, uint32_t entry, uint32_t *ret)
{
	struct repo_pack_blob blob;
	uint32_t pack, first;

	if (repo_walk_marked(copies->walk, entry) ||
	    !repo_index_at(copies->repo->index, entry, &blob, &pack) ||
	    !repo_index_entry(copies->repo->index, (enum repo_blob_type)blob.type, &blob.id,
			      &first) ||
	    first >= copies->walk->entries || !repo_walk_marked(copies->walk, first))
		return false;
	*ret = first;
	return true;
}

/* Collects each marked entry once, regardless of how many other copies it has. */
static int prune_copies_collect(struct copies *copies, struct cairn_err *err)
{
	uint32_t total = copies->walk->entries, first;
	cairn_auto_free uint64_t *seen = cairn_calloc(total / 64 + 1, sizeof(*seen));
	size_t n = 0;

	for (uint32_t e = 0; seen && e < total; e++)
		n += marked_copy(copies, e, &first);
	copies->entries = n > 0 ? cairn_calloc(n, sizeof(*copies->entries)) : NULL;
	if (!seen || (n > 0 && !copies->entries))
		return cairn_err_nomem(err, "copies of blobs");
	for (uint32_t e = 0; n > 0 && e < total; e++) {
		if (!marked_copy(copies, e, &first) || seen[first / 64] >> (first % 64) & 1)
			continue;
		seen[first / 64] |= (uint64_t)1 << (first % 64);
		copies->entries[copies->n++] = first;
	}
	return 0;
}

static void move_mark(struct copies *copies, uint32_t from, uint32_t to)
{
	cairn_scoped_lock(&copies->mutex);
	repo_walk_move_mark(copies->walk, from, to);
}

static int choose_copy(void *arg, size_t i, struct cairn_err *err)
{
	struct copies *copies = arg;
	struct repo *repo = copies->repo;
	struct repo_pack_blob blob;
	struct cairn_err why = {0};
	uint32_t pack, entry;
	int rc = repo_go_on(repo, err);

	if (rc < 0)
		return rc;
	repo_index_at(repo->index, copies->entries[i], &blob, &pack);
	for (unsigned number = 0; repo_index_entry_copy(repo->index, (enum repo_blob_type)blob.type,
							&blob.id, number, &entry);
	     number++) {
		rc = repo_blob_verify_copy(repo, (enum repo_blob_type)blob.type, &blob.id, number,
					   &why);
		if (rc == 0) {
			move_mark(copies, copies->entries[i], entry);
			return 0;
		}
		if (rc != CAIRN_DATA_LOSS)
			return cairn_err_set(err, rc, "%s", why.msg);
	}
	return cairn_err_set(err, CAIRN_DATA_LOSS,
			     "%s, and so is every other copy; nothing was deleted", why.msg);
}

int repo_prune_choose_copies(struct repo *repo, struct repo_walk *walk, struct cairn_err *err)
{
	struct copies copies = {.repo = repo, .walk = walk, .mutex = PTHREAD_MUTEX_INITIALIZER};
	int rc = prune_copies_collect(&copies, err);

	if (rc == 0)
		rc = cairn_parallel_each(copies.n, repo->store->connections, choose_copy, &copies,
					 err);
	free(copies.entries);
	return rc;
}
