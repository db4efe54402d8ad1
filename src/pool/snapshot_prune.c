/* SPDX-License-Identifier: Apache-2.0 */

/* Deleting snapshots by a retention policy.
 *
 * Each volume is handled on its own. A wrong clock must not cost a snapshot: one dated
 * in the future would count as the newest for ever, and one that is older than the
 * snapshot cut before it would be the first to be deleted. Both are kept and not
 * counted, as 'backup forget' does.
 */

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/keep.h"
#include "base/mem.h"
#include "pool/pool.h"

struct candidate {
	struct pool_snapshot snapshot;
	unsigned reasons;
};

struct pruning {
	struct pool *pool;
	const struct pool_prune_spec *spec;
	struct candidate *list; /* in the order in which they were cut */
	size_t n;
	size_t room;
	struct cairn_err why; /* the first failure */
	int rc;
};

static int snapshot_prune_collect(void *arg, const struct pool_snapshot *snapshot,
				  struct cairn_err *err)
{
	struct pruning *p = arg;

	if (p->n == p->room) {
		size_t room = p->room ? 2 * p->room : 64;
		void *more = cairn_realloc_array(p->list, room, sizeof(*p->list));

		if (!more)
			return cairn_err_nomem(err, "list of snapshots");
		p->list = more;
		p->room = room;
	}
	p->list[p->n++] = (struct candidate){.snapshot = *snapshot};
	return 0;
}

static void mark_mistimed(struct pruning *p)
{
	uint64_t now = cairn_now_ns();
	uint64_t before = 0;

	for (size_t i = 0; i < p->n; i++) {
		uint64_t created = p->list[i].snapshot.created_ns;

		if (created > now || created < before)
			p->list[i].reasons = POOL_KEEP_CLOCK;
		if (created <= now && created > before)
			before = created;
	}
}

/* The newest snapshot is always kept. */
static void apply_rules(struct pruning *p)
{
	struct cairn_keep keep;

	mark_mistimed(p);
	cairn_keep_init(&keep, &p->spec->keep);
	for (size_t i = p->n; i > 0; i--) {
		struct candidate *c = &p->list[i - 1];

		if (!c->reasons)
			c->reasons = cairn_keep_next(&keep, (int64_t)c->snapshot.created_ns);
		if (i == p->n && !c->reasons)
			c->reasons = POOL_KEEP_NEWEST;
	}
}

/* 0 and no reasons: deleted. A snapshot that was attached just now is kept; one that
 * another process deleted counts as deleted. */
static int snapshot_prune_delete_one(struct pruning *p, struct candidate *c, struct cairn_err *err)
{
	bool used = false;
	int rc = pool_snapshot_in_use(p->pool, c->snapshot.id, &used, err);

	if (!rc && used)
		c->reasons = POOL_KEEP_IN_USE;
	if (!rc && !used && !p->spec->dry_run)
		rc = pool_snapshot_delete(p->pool, c->snapshot.id, err);
	if (rc == CAIRN_PRECONDITION &&
	    pool_snapshot_in_use(p->pool, c->snapshot.id, &used, NULL) == 0 && used) {
		c->reasons = POOL_KEEP_IN_USE;
		rc = 0;
	}
	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

/* A snapshot that cannot be deleted does not stop the others. */
static int prune_one(struct pruning *p, struct candidate *c, struct cairn_err *err)
{
	struct cairn_err why = {0};
	int rc = c->reasons ? 0 : snapshot_prune_delete_one(p, c, &why);

	if (!rc)
		return p->spec->fn(p->spec->arg, &c->snapshot, c->reasons, err);
	if (!p->rc) {
		p->rc = rc;
		p->why = why;
	}
	return rc == CAIRN_CANCELLED ? rc : 0;
}

int pool_snapshot_prune(struct pool *pool, const struct pool_prune_spec *spec,
			struct cairn_err *err)
{
	struct pruning p = {.pool = pool, .spec = spec};
	struct pool_snapshot_list_spec list = {.volume = spec->volume};
	int rc = 0;

	if (cairn_keep_policy_empty(&spec->keep))
		return cairn_err_set(err, CAIRN_INVALID,
				     "no rule says what to keep; all but one would be deleted");
	rc = pool_snapshot_list(pool, &list, snapshot_prune_collect, &p, err);
	if (!rc)
		apply_rules(&p);
	for (size_t i = 0; i < p.n && !rc; i++)
		rc = prune_one(&p, &p.list[i], err);
	free(p.list);
	if (!rc && p.rc) {
		rc = p.rc;
		if (err)
			*err = p.why;
	}
	return rc;
}

const char *pool_keep_reason_text(unsigned reason)
{
	switch (reason) {
	case POOL_KEEP_NEWEST:
		return "newest";
	case POOL_KEEP_IN_USE:
		return "in use";
	case POOL_KEEP_CLOCK:
		return "clock";
	default:
		return cairn_keep_reason_text((enum cairn_keep_reason)reason);
	}
}
