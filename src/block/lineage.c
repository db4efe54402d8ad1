/* SPDX-License-Identifier: Apache-2.0 */

#include "block/lineage.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/mem.h"

struct path {
	struct block_lineage_step *steps; /* newest first while it grows */
	size_t n;
	size_t cap;
};

static void path_done(struct path *path)
{
	free(path->steps);
}

static int path_add(struct path *path, uint64_t number, bool on_base_side, struct cairn_err *err)
{
	if (path->n == BLOCK_LINEAGE_STEPS_MAX)
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "more than %u snapshots lie between the two",
				     BLOCK_LINEAGE_STEPS_MAX);
	if (path->n == path->cap) {
		size_t cap = path->cap ? 2 * path->cap : 64;
		void *steps = cairn_realloc_array(path->steps, cap, sizeof(*path->steps));

		if (!steps)
			return cairn_err_nomem(err, "lineage");
		path->steps = steps;
		path->cap = cap;
	}
	path->steps[path->n++] = (struct block_lineage_step){
		.number = number,
		.on_base_side = on_base_side,
	};
	return 0;
}

/* Replaces *number by its predecessor. `named` means that the caller passed this number,
 * so that a missing record is not damage. */
static int lineage_climb(struct block_lineage_source source, uint64_t *number, bool named,
			 struct cairn_err *err)
{
	uint64_t parent = 0;
	int rc;

	rc = source.parent(source.arg, *number, &parent, err);
	if (rc == CAIRN_NOT_FOUND && !named)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "snapshot %" PRIu64 " has successors but no record", *number);
	if (rc < 0)
		return rc;
	if (parent >= *number)
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "snapshot %" PRIu64 " names %" PRIu64 " as its predecessor",
				     *number, parent);
	if (parent == 0)
		return cairn_err_set(err, CAIRN_INVALID, "the snapshots have no common ancestor");
	*number = parent;
	return 0;
}

/* A predecessor has the smaller number, so the larger of the two can never be the
 * ancestor: replacing the larger by its predecessor finds the nearest common one. */
static int find_ancestor(struct block_lineage_source source, uint64_t base, uint64_t target,
			 struct path *path, struct cairn_err *err)
{
	uint64_t on_base = base, on_target = target, parent;
	int rc = 0;

	/* Its record is not read below. */
	if (base == target)
		return source.parent(source.arg, base, &parent, err);
	while (on_base != on_target && rc == 0) {
		bool base_side = on_base > on_target;
		uint64_t *larger = base_side ? &on_base : &on_target;

		rc = path_add(path, *larger, base_side, err);
		if (rc == 0)
			rc = lineage_climb(source, larger, *larger == (base_side ? base : target),
					   err);
	}
	if (rc == 0 && on_target == target)
		return cairn_err_set(err, CAIRN_INVALID, "the base is newer than the target");
	return rc;
}

int block_lineage_path(struct block_lineage_source source, uint64_t base, uint64_t target,
		       struct block_lineage_step **ret_steps, size_t *ret_n, struct cairn_err *err)
{
	cairn_cleanup(path_done) struct path path = {0};
	cairn_auto_free struct block_lineage_step *sorted = NULL;
	size_t n = 0;
	int rc;

	if (base == 0 || target == 0)
		return cairn_err_set(err, CAIRN_INVALID, "0 is not a snapshot number");
	rc = find_ancestor(source, base, target, &path, err);
	if (rc < 0)
		return rc;
	sorted = cairn_calloc(path.n, sizeof(*sorted));
	if (!sorted)
		return cairn_err_nomem(err, "lineage");
	for (int side = 1; side >= 0; side--)
		for (size_t i = path.n; i-- > 0;)
			if (path.steps[i].on_base_side == (side == 1))
				sorted[n++] = path.steps[i];
	*ret_steps = cairn_take(sorted);
	*ret_n = n;
	return 0;
}
