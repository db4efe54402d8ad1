/* SPDX-License-Identifier: Apache-2.0 */

/* After the storm: everything that was acknowledged is there, every delta is right
 * or refused for a reason, and everything can be deleted. */

#include "storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"

#define OPEN_WAIT_MS  60000
#define EMPTY_WAIT_MS 60000

/* ---- what was acknowledged ----------------------------------------------- */

struct acked {
	char id[POOL_ID_MAX + 1];
	bool made, asked, asked_with_snapshots, deleted;
};

struct acks {
	struct acked *list;
	size_t n, cap;
};

static struct acked *acks_find(struct acks *acks, const char *id)
{
	for (size_t i = acks->n; i-- > 0;)
		if (strcmp(acks->list[i].id, id) == 0)
			return &acks->list[i];
	if (acks->n == acks->cap) {
		acks->cap = acks->cap ? acks->cap * 2 : 1024;
		acks->list = reallocarray(acks->list, acks->cap, sizeof(*acks->list));
		if (!acks->list)
			storm_fail("out of memory");
	}
	acks->list[acks->n] = (struct acked){.made = false};
	snprintf(acks->list[acks->n].id, sizeof(acks->list[0].id), "%s", id);
	return &acks->list[acks->n++];
}

static void acks_load(struct storm *storm, struct acks *acks)
{
	char path[160];
	char line[POOL_ID_MAX + 4];
	FILE *file;

	snprintf(path, sizeof(path), "%s/acks", storm->truth);
	file = fopen(path, "re");
	if (!file)
		storm_fail("cannot read the truth");
	while (fgets(line, sizeof(line), file)) {
		struct acked *at;

		line[strcspn(line, "\n")] = '\0';
		at = acks_find(acks, line + 1);
		at->made = at->made || line[0] == '+';
		at->asked = at->asked || line[0] == '-' || line[0] == '*';
		at->asked_with_snapshots = at->asked_with_snapshots || line[0] == '*';
		at->deleted = at->deleted || line[0] == '=';
	}
	fclose(file);
}

static void check_volume(struct pool *pool, const struct acked *at)
{
	struct pool_volume volume;
	struct cairn_err err = {0};
	int rc = pool_volume_get(pool, at->id, &volume, &err);

	if (at->made && !at->asked && (rc || volume.deleted))
		storm_fail("volume %s was acknowledged and is gone: %s", at->id, err.msg);
	if (at->deleted && rc == 0 && !volume.deleted)
		storm_fail("volume %s was deleted and is there", at->id);
}

static void check_snapshot(struct storm *storm, struct pool *pool, struct acks *acks,
			   const struct acked *at)
{
	struct storm_sums then, now;
	struct pool_snapshot snapshot;
	struct cairn_err err = {0};
	int rc = pool_snapshot_get(pool, at->id, &snapshot, &err);
	bool live = rc == 0 && !snapshot.deleted;

	if (at->deleted && live)
		storm_fail("snapshot %s was deleted and is there", at->id);
	if (live && !at->asked) {
		rc = storm_sums_read(pool, at->id, &now, NULL, &err);
		if (rc)
			storm_fail("snapshot %s cannot be read: %s", at->id, err.msg);
		if (storm_sums_find(storm, at->id, &then) && memcmp(&then, &now, sizeof(then)) != 0)
			storm_fail("snapshot %s is not what it was", at->id);
		storm_sums_keep(storm, at->id, &now);
	}
	if (at->made && !at->asked && !live) {
		char volume[POOL_ID_MAX + 1];

		/* "snap-VOLUME-NUMBER" */
		snprintf(volume, sizeof(volume), "vol-%.*s", (int)strcspn(at->id + 5, "-"),
			 at->id + 5);
		if (!acks_find(acks, volume)->asked_with_snapshots)
			storm_fail("snapshot %s was acknowledged and is gone: %s", at->id, err.msg);
	}
}

static void check_acks(struct storm *storm, struct pool *pool)
{
	struct acks acks = {0};

	acks_load(storm, &acks);
	for (size_t i = 0; i < acks.n; i++) {
		struct acked at = acks.list[i];

		if (strncmp(at.id, "vol-", 4) == 0)
			check_volume(pool, &at);
		else
			check_snapshot(storm, pool, &acks, &at);
	}
	free(acks.list);
}

/* ---- every pair ---------------------------------------------------------- */

struct snapshots {
	struct pool_snapshot *list;
	size_t n;
};

static int collect_snapshot(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *err)
{
	struct snapshots *all = arg;

	(void)err;
	all->list = reallocarray(all->list, all->n + 1, sizeof(*all->list));
	if (!all->list)
		storm_fail("out of memory");
	all->list[all->n++] = *snapshot;
	return 0;
}

static void list_snapshots(struct pool *pool, bool with_deleted, struct snapshots *ret)
{
	struct pool_snapshot_list_spec spec = {.with_deleted = with_deleted};
	struct cairn_err err = {0};

	*ret = (struct snapshots){0};
	if (pool_snapshot_list(pool, &spec, collect_snapshot, ret, &err) != 0)
		storm_fail("list: %s", err.msg);
}

/* Those of one volume are one line: a delta between two that live is never refused. */
static void compare_pair(struct storm *storm, struct pool *pool, const struct pool_snapshot *base,
			 const struct pool_snapshot *target)
{
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
	struct pool_delta_spec spec = {.base = base->id, .target = target->id};
	struct storm_sums base_sums, target_sums;
	struct cairn_err err = {0};
	int rc = pool_delta_open(pool, &spec, &delta, &err);

	if (rc && strcmp(base->volume_id, target->volume_id) == 0 && !base->deleted)
		storm_fail("delta from %s to %s: %s", base->id, target->id, err.msg);
	if (rc && rc != CAIRN_INVALID && rc != CAIRN_PRECONDITION)
		storm_fail("delta from %s to %s: %s (%s)", base->id, target->id, err.msg,
			   cairn_code_name(rc));
	if (rc == 0 && storm_sums_find(storm, base->id, &base_sums) &&
	    storm_sums_find(storm, target->id, &target_sums))
		(void)storm_delta_compare(storm, delta, &base_sums, &target_sums);
}

static void compare_pairs(struct storm *storm, struct pool *pool)
{
	struct snapshots all;

	list_snapshots(pool, true, &all);
	/* In the order of numbers, so a predecessor comes first. */
	for (size_t t = 0; t < all.n; t++)
		for (size_t b = 0; b < all.n && !all.list[t].deleted; b++)
			if (b != t &&
			    (b < t || strcmp(all.list[b].volume_id, all.list[t].volume_id) != 0))
				compare_pair(storm, pool, &all.list[b], &all.list[t]);
	free(all.list);
}

/* ---- and all of it goes -------------------------------------------------- */

static void print_fault(void *arg, enum pool_fault_state state, const char *line)
{
	(void)arg;
	(void)state;
	fprintf(stderr, "storm: fault: %s\n", line);
}

static void check_clean(struct pool *pool, const char *when)
{
	struct pool_check_spec spec = {.fault = print_fault};
	struct pool_check_result result = {0};
	struct cairn_err err = {0};

	if (pool_check(pool, &spec, &result, &err) != 0)
		storm_fail("check %s: %s", when, err.msg);
	if (result.found)
		storm_fail("check %s found %llu faults", when, (unsigned long long)result.found);
}

static int delete_one_volume(void *arg, const struct pool_volume *volume, struct cairn_err *err)
{
	struct pool *pool = arg;
	int rc = pool_volume_detach(pool, volume->id, err);

	/* No loop devices here means that nothing is attached. */
	if (rc == 0 || rc == CAIRN_UNIMPLEMENTED || rc == CAIRN_DENIED)
		rc = pool_volume_delete(pool, volume->id, POOL_DELETE_SNAPSHOTS, err);
	return rc;
}

static void delete_all(struct pool *pool)
{
	struct snapshots rest;
	struct cairn_err err = {0};

	if (pool_volume_list(pool, NULL, delete_one_volume, pool, &err) != 0)
		storm_fail("not everything can be deleted: %s", err.msg);
	list_snapshots(pool, false, &rest);
	for (size_t i = 0; i < rest.n; i++)
		if (pool_snapshot_delete(pool, rest.list[i].id, &err) != 0)
			storm_fail("not everything can be deleted: %s", err.msg);
	free(rest.list);
}

static void wait_until_empty(struct pool *pool)
{
	uint64_t deadline = cairn_monotonic_ns() + EMPTY_WAIT_MS * CAIRN_NS_PER_MS;
	struct pool_info info;
	struct cairn_err err = {0};
	size_t merged;

	do {
		if (pool_expire(pool, SIZE_MAX, &merged, &err) != 0 ||
		    pool_info_get(pool, &info, &err) != 0)
			storm_fail("expiry: %s", err.msg);
		if (info.volumes + info.snapshots + info.tombstones == 0)
			return;
		cairn_sleep_ms(20);
	} while (cairn_monotonic_ns() < deadline);
	storm_fail("the pool does not become empty: %llu volumes, %llu snapshots, %llu tombstones",
		   (unsigned long long)info.volumes, (unsigned long long)info.snapshots,
		   (unsigned long long)info.tombstones);
}

void storm_settle(struct storm *storm)
{
	struct pool_open_spec spec = {.dir = storm->dir, .lock_wait_ms = OPEN_WAIT_MS};
	struct pool *pool = NULL;
	struct cairn_err err = {0};

	if (pool_open(&spec, &pool, &err) != 0)
		storm_fail("open after the storm: %s", err.msg);
	check_acks(storm, pool);
	check_clean(pool, "after the storm");
	compare_pairs(storm, pool);
	delete_all(pool);
	wait_until_empty(pool);
	pool_close(pool);
	pool = NULL;
	if (pool_open(&spec, &pool, &err) != 0) /* cleans the last leftovers */
		storm_fail("open of the empty pool: %s", err.msg);
	check_clean(pool, "of the empty pool");
	pool_close(pool);
}
