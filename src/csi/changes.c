/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/changes.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "csi/service.h"
#include "net/grpc/call.h"
#include "pool/store/store.h"

#define BATCH 256U

struct csi_changes {
	struct pool_delta *delta;
	struct pool_snapshot target;
	bool everything; /* report gaps as zero */
	uint64_t position;

	struct block_extent batch[BATCH];
	size_t next;
	size_t n;
	bool ended;
};

static bool changes_is_cancelled(void *arg)
{
	return net_call_check(arg) != 0;
}

static int open_delta(struct csi_driver *driver, struct csi_changes *c, struct pool *pool,
		      const struct csi_changes_spec *spec, const char *base, struct cairn_err *err)
{
	struct store_progress progress = {.cancelled = changes_is_cancelled, .arg = spec->call};
	struct pool_delta_spec delta = {
		.base = base,
		.target = spec->target,
		.starting_offset = spec->start,
		.progress = &progress,
		.compare_max = driver->compare_max,
	};
	struct cairn_err why = {0};
	int rc = pool_delta_open(pool, &delta, &c->delta, &why);

	if (rc == CAIRN_INVALID && base && driver->compare_max == 0)
		return cairn_err_set(err, rc,
				     "%s; the driver compares such snapshots with --compare-max",
				     why.msg);
	if (rc && err)
		*err = why;
	return rc;
}

/* Opens the index; CAIRN_PRECONDITION if it no longer has the changes. */
static int open_changed(struct csi_driver *driver, struct csi_changes *c, struct pool *pool,
			const struct csi_changes_spec *spec, struct cairn_err *err)
{
	struct pool_snapshot base;
	struct pool *base_pool;
	int rc = csi_find_base(driver, spec->base, &base_pool, &base, err);

	if (rc)
		return rc;
	if (base_pool != pool)
		return cairn_err_set(err, CAIRN_INVALID,
				     "snapshots '%s' and '%s' are in different pools", spec->base,
				     spec->target);
	return open_delta(driver, c, pool, spec, spec->base, err);
}

int csi_changes_open(struct csi_driver *driver, const struct csi_changes_spec *spec,
		     struct csi_changes **ret, struct cairn_err *err)
{
	cairn_cleanup(csi_changes_freep) struct csi_changes *c = cairn_calloc(1, sizeof(*c));
	struct pool *pool;
	int rc;

	if (!c)
		return cairn_err_nomem(err, "changes");
	c->position = spec->start;
	rc = csi_find_snapshot(driver, spec->target, &pool, &c->target, err);
	if (rc)
		return rc;
	if (spec->base && spec->base[0])
		rc = open_changed(driver, c, pool, spec, err);
	else
		rc = open_delta(driver, c, pool, spec, NULL, err);
	/* Only this code says that the changes are not known any more; any other error must
	 * not become "everything changed". */
	if (rc == CAIRN_PRECONDITION && spec->all_if_unknown) {
		c->everything = true;
		rc = open_delta(driver, c, pool, spec, NULL, err);
	}
	if (rc)
		return rc;
	*ret = cairn_take(c);
	return 0;
}

void csi_changes_free(struct csi_changes *changes)
{
	pool_delta_freep(&changes->delta);
	free(changes);
}

const struct pool_snapshot *csi_changes_target(const struct csi_changes *changes)
{
	return &changes->target;
}

const struct pool_snapshot *csi_changes_base(const struct csi_changes *changes)
{
	const struct pool_snapshot *base = &pool_delta_info(changes->delta)->base;

	return base->id[0] ? base : NULL;
}

/* Returns the current extent, or NULL at the end. */
static int changes_peek(struct csi_changes *c, struct block_extent **ret, struct cairn_err *err)
{
	int rc = 0;

	if (c->next == c->n && !c->ended) {
		c->next = 0;
		rc = pool_delta_next(c->delta, c->batch, BATCH, &c->n, err);
		c->ended = rc == 0 && c->n == 0;
	}
	*ret = rc == 0 && c->next < c->n ? &c->batch[c->next] : NULL;
	return rc;
}

/* Returns the zeros before `extent`, or before the end of the volume. */
static bool take_gap(struct csi_changes *c, const struct block_extent *extent,
		     struct block_extent *ret)
{
	uint64_t end = extent ? extent->offset : c->target.size;

	if (!c->everything || c->position >= end)
		return false;
	*ret = (struct block_extent){
		.offset = c->position,
		.length = end - c->position,
		.zero = true,
	};
	c->position = end;
	return true;
}

int csi_changes_next(struct csi_changes *c, struct block_extent *ret, bool *ret_some,
		     struct cairn_err *err)
{
	struct block_extent *extent;
	struct block_extent whole;
	int rc = changes_peek(c, &extent, err);

	if (rc)
		return rc;
	*ret_some = take_gap(c, extent, ret);
	if (*ret_some || !extent)
		return 0;
	/* The union works window by window and so splits runs; a client pays for each tuple. */
	whole = *extent;
	do {
		c->position = block_extent_end(extent);
		whole.length = c->position - whole.offset;
		c->next++;
		rc = changes_peek(c, &extent, err);
	} while (!rc && extent && extent->offset == c->position && extent->zero == whole.zero);
	if (rc)
		return rc;
	*ret = whole;
	*ret_some = true;
	return 0;
}
