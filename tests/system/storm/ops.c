/* SPDX-License-Identifier: Apache-2.0 */

#include "storm.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "pool/catalogue/front_end_note.h"

#define NAME_MAX_BYTES 32
#define FULL_MAX       (NAME_MAX_BYTES * 2 + 2)
#define GROUP          3

void storm_fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("storm: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	_exit(1);
}

void storm_expect(const char *what, const char *on, int rc, const struct cairn_err *err)
{
	switch (rc) {
	case 0:
	case CAIRN_ABORTED:
	case CAIRN_NOT_FOUND:
	case CAIRN_EXISTS:
	case CAIRN_PRECONDITION:
		return;
	default:
		storm_fail("%s %s: %s (%s)", what, on, err->msg, cairn_code_name(rc));
	}
}

uint64_t storm_random(struct storm_thread *thread, uint64_t below)
{
	thread->random ^= thread->random << 13;
	thread->random ^= thread->random >> 7;
	thread->random ^= thread->random << 17;
	return thread->random % below;
}

static void any_volume(struct storm_thread *thread, char out[NAME_MAX_BYTES])
{
	snprintf(out, NAME_MAX_BYTES, "v%llu",
		 (unsigned long long)storm_random(thread, STORM_VOLUMES));
}

/* A snapshot out of all of them, each with the same chance. */
struct choice {
	struct storm_thread *thread;
	uint64_t seen;
	struct pool_snapshot chosen;
};

static int choose_one(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *err)
{
	struct choice *choice = arg;

	(void)err;
	if (storm_random(choice->thread, ++choice->seen) == 0)
		choice->chosen = *snapshot;
	return 0;
}

static bool any_snapshot(struct storm_thread *thread, bool with_deleted, const char *volume,
			 struct pool_snapshot *ret)
{
	struct pool_snapshot_list_spec spec = {.volume = volume, .with_deleted = with_deleted};
	struct choice choice = {.thread = thread};
	struct cairn_err err = {0};
	int rc = pool_snapshot_list(thread->pool, &spec, choose_one, &choice, &err);

	storm_expect("list", volume ? volume : "", rc, &err);
	if (rc == 0 && choice.seen > 0)
		*ret = choice.chosen;
	else if (rc && !volume)
		storm_fail("list: %s", err.msg);
	return rc == 0 && choice.seen > 0;
}

/* An id is never given twice: what is there after the call was there during it. */
static void expect_on_volume(struct storm_thread *thread, const char *what, const char *id, int rc,
			     const struct cairn_err *err)
{
	struct pool_volume volume;
	struct cairn_err ignored;

	storm_expect(what, id, rc, err);
	if (rc == CAIRN_NOT_FOUND && pool_volume_get(thread->pool, id, &volume, &ignored) == 0 &&
	    !volume.deleted)
		storm_fail("%s %s, which is there: %s", what, id, err->msg);
}

static bool is_live(struct storm_thread *thread, const char *snapshot)
{
	struct pool_snapshot found;
	struct cairn_err ignored;

	return pool_snapshot_get(thread->pool, snapshot, &found, &ignored) == 0 && !found.deleted;
}

static void expect_on_snapshot(struct storm_thread *thread, const char *what, const char *id,
			       int rc, const struct cairn_err *err)
{
	storm_expect(what, id, rc, err);
	if (rc == CAIRN_NOT_FOUND && is_live(thread, id))
		storm_fail("%s %s, which is there: %s", what, id, err->msg);
}

/* ---- volumes ------------------------------------------------------------- */

static bool any_volume_id(struct storm_thread *thread, struct pool_volume *ret)
{
	struct cairn_err err = {0};
	char name[NAME_MAX_BYTES];

	any_volume(thread, name);
	return pool_volume_get(thread->pool, name, ret, &err) == 0;
}

static void settings_of(struct storm_thread *thread, const char *volume)
{
	static const uint64_t retentions[] = {1, 1, 20, 300};
	static const uint32_t granularities[] = {4096, 16384, 65536};
	struct pool_volume_settings settings = {
		.set_retention = true,
		.retention_ms = retentions[storm_random(thread, 4)],
		.set_granularity = storm_random(thread, 2),
		.granularity = granularities[storm_random(thread, 3)],
	};
	struct pool_volume now;
	struct cairn_err err = {0};

	expect_on_volume(thread, "modify", volume,
			 pool_volume_modify(thread->pool, volume, &settings, &now, &err), &err);
}

static int create_volume(struct storm_thread *thread, const char *from, struct cairn_err *err)
{
	char name[NAME_MAX_BYTES];
	struct pool_volume_spec spec = {
		.name = name, .size = from ? 0 : STORM_BLOCKS * STORM_BLOCK, .from = from};
	struct pool_volume made;
	int rc;

	any_volume(thread, name);
	rc = pool_volume_create(thread->pool, &spec, &made, err);
	if (rc)
		return rc;
	storm_ack(thread->storm, '+', made.id);
	if (storm_random(thread, 2))
		settings_of(thread, made.id);
	return 0;
}

static void new_volume(struct storm_thread *thread)
{
	struct cairn_err err = {0};

	storm_expect("create", "", create_volume(thread, NULL, &err), &err);
}

static void clone_volume(struct storm_thread *thread)
{
	struct pool_volume source;
	struct cairn_err err = {0};

	if (any_volume_id(thread, &source))
		expect_on_volume(thread, "clone", source.id, create_volume(thread, source.id, &err),
				 &err);
}

static void clone_snapshot(struct storm_thread *thread)
{
	struct pool_snapshot source;
	struct cairn_err err = {0};

	if (any_snapshot(thread, false, NULL, &source))
		expect_on_snapshot(thread, "clone", source.id,
				   create_volume(thread, source.id, &err), &err);
}

static void expand_volume(struct storm_thread *thread)
{
	uint64_t blocks = STORM_BLOCKS +
			  16 * storm_random(thread, (STORM_BLOCKS_MAX - STORM_BLOCKS) / 16 + 1);
	struct cairn_err err = {0};
	struct pool_volume now;
	int rc;

	if (!any_volume_id(thread, &now))
		return;
	rc = pool_volume_expand(thread->pool, now.id, blocks * STORM_BLOCK, &now, &err);
	if (rc != CAIRN_INVALID) /* it would shrink */
		expect_on_volume(thread, "expand", now.id, rc, &err);
}

static void delete_volume(struct storm_thread *thread)
{
	static const enum pool_volume_delete_mode modes[] = {
		POOL_DELETE_REFUSE, POOL_DELETE_KEEP_SNAPSHOTS, POOL_DELETE_SNAPSHOTS};
	enum pool_volume_delete_mode mode = modes[storm_random(thread, 3)];
	struct cairn_err err = {0};
	struct pool_volume volume;
	int rc;

	if (!any_volume_id(thread, &volume))
		return;
	storm_ack(thread->storm, mode == POOL_DELETE_SNAPSHOTS ? '*' : '-', volume.id);
	rc = pool_volume_delete(thread->pool, volume.id, mode, &err);
	expect_on_volume(thread, "delete", volume.id, rc, &err);
	if (rc == 0)
		storm_ack(thread->storm, '=', volume.id);
}

/* To a name that is free or not; by id, so that it is clear which one it was. */
static void rename_volume(struct storm_thread *thread)
{
	struct cairn_err err = {0};
	struct pool_volume volume;
	char name[NAME_MAX_BYTES];

	if (!any_volume_id(thread, &volume))
		return;
	any_volume(thread, name);
	expect_on_volume(thread, "rename", volume.id,
			 pool_volume_rename(thread->pool, volume.id, name, &volume, &err), &err);
}

static bool write_file(struct storm_thread *thread, const char *volume_id, uint64_t offset,
		       const void *block)
{
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;
	struct cairn_err err = {0};

	if (pool_volume_path(thread->pool, volume_id, &path, &err) != 0)
		return false;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && pwrite(fd, block, STORM_BLOCK, (off_t)offset) == (ssize_t)STORM_BLOCK;
}

static void write_block(struct storm_thread *thread)
{
	uint64_t block[STORM_BLOCK / sizeof(uint64_t)];
	unsigned workers = thread->storm->workers;
	struct storm_written *written;
	struct pool_volume volume;
	uint64_t at;

	if (!any_volume_id(thread, &volume))
		return;
	written = storm_written_of(thread->storm, volume.id);
	at = storm_random(thread, volume.size / STORM_BLOCK);
	at = at - at % workers + thread->index;
	if (!written || at >= volume.size / STORM_BLOCK)
		return;
	for (size_t i = 0; i < STORM_BLOCK / sizeof(uint64_t); i++)
		block[i] = thread->random;
	block[0] = atomic_fetch_add(&thread->storm->shared->stamp, 1) + 1;
	if (thread->storm->on_ceph
		    ? storm_write_rbd(thread->pool, volume.id, at * STORM_BLOCK, block)
		    : write_file(thread, volume.id, at * STORM_BLOCK, block))
		atomic_store(&written->stamps[at], block[0]);
}

/* What is attached is detached at once, by whoever gets there first. */
static void attach_volume(struct storm_thread *thread)
{
	struct cairn_err err = {0};
	char device[64];
	char name[NAME_MAX_BYTES];
	int rc;

	any_volume(thread, name);
	rc = pool_volume_attach(thread->pool, name, storm_random(thread, 2), device, sizeof(device),
				&err);
	storm_expect("attach", name, rc, &err);
	if (rc)
		return;
	storm_expect("detach", name, pool_volume_detach(thread->pool, name, &err), &err);
}

/* ---- snapshots ----------------------------------------------------------- */

/* Every write that was acknowledged before the cut was asked for is in it. */
static void look_at_snapshot(struct storm_thread *thread, const struct pool_snapshot *made,
			     const uint64_t before[STORM_BLOCKS_MAX])
{
	uint64_t stamps[STORM_BLOCKS_MAX] = {0};
	const struct storm_written *written;
	struct storm_sums sums;
	struct cairn_err err = {0};
	bool rolled_back;
	int rc = storm_sums_read(thread->pool, made->id, &sums, stamps, &err);

	storm_expect("read", made->id, rc, &err);
	if (rc)
		return;
	written = storm_written_of(thread->storm, made->volume_id);
	rolled_back = written && atomic_load(&written->rolled_back);
	for (uint64_t i = 0; i < sums.size / STORM_BLOCK && !rolled_back; i++)
		if (stamps[i] < before[i])
			storm_fail("snapshot %s has write %llu in block %llu, %llu was before it",
				   made->id, (unsigned long long)stamps[i], (unsigned long long)i,
				   (unsigned long long)before[i]);
	storm_sums_keep(thread->storm, made->id, &sums);
}

static void cut_volumes(struct storm_thread *thread, size_t n)
{
	uint64_t before[GROUP][STORM_BLOCKS_MAX] = {{0}};
	struct pool_snapshot_spec specs[GROUP];
	struct pool_snapshot made[GROUP];
	struct pool_volume volumes[GROUP];
	char name[NAME_MAX_BYTES];
	struct cairn_err err = {0};
	int rc;

	snprintf(name, sizeof(name), "s%llu",
		 (unsigned long long)storm_random(thread, STORM_NAMES));
	for (size_t i = 0; i < n; i++) {
		const struct storm_written *written;

		if (!any_volume_id(thread, &volumes[i]))
			return;
		for (size_t j = 0; j < i; j++)
			if (strcmp(volumes[j].id, volumes[i].id) == 0)
				return;
		specs[i] = (struct pool_snapshot_spec){.volume = volumes[i].id, .name = name};
		written = storm_written_of(thread->storm, volumes[i].id);
		for (size_t j = 0; written && j < STORM_BLOCKS_MAX; j++)
			before[i][j] = atomic_load(&written->stamps[j]);
	}
	rc = pool_snapshot_create(thread->pool, specs, n, made, &err);
	if (n == 1)
		expect_on_volume(thread, "snapshot", specs[0].volume, rc, &err);
	else
		storm_expect("snapshot", specs[0].volume, rc, &err);
	if (rc)
		return;
	for (size_t i = 0; i < n; i++)
		storm_ack(thread->storm, '+', made[i].id);
	for (size_t i = 0; i < n; i++)
		look_at_snapshot(thread, &made[i], before[i]);
	atomic_fetch_add(&thread->storm->shared->snapshots, n);
	if (storm_random(thread, 2))
		storm_expect("complete", made[0].id,
			     pool_snapshot_complete(thread->pool, made[0].id, NULL, &err), &err);
}

static void cut_one(struct storm_thread *thread)
{
	cut_volumes(thread, 1);
}

static void cut_group(struct storm_thread *thread)
{
	cut_volumes(thread, 2 + storm_random(thread, GROUP - 1));
}

static void delete_snapshot(struct storm_thread *thread)
{
	struct pool_snapshot snapshot;
	struct cairn_err err = {0};
	int rc;

	if (!any_snapshot(thread, false, NULL, &snapshot))
		return;
	storm_ack(thread->storm, '-', snapshot.id);
	rc = pool_snapshot_delete(thread->pool, snapshot.id, &err);
	expect_on_snapshot(thread, "delete", snapshot.id, rc, &err);
	if (rc == 0)
		storm_ack(thread->storm, '=', snapshot.id);
}

static void rename_snapshot(struct storm_thread *thread)
{
	struct pool_snapshot snapshot;
	struct cairn_err err = {0};
	char name[NAME_MAX_BYTES];

	if (!any_snapshot(thread, false, NULL, &snapshot))
		return;
	snprintf(name, sizeof(name), "s%llu",
		 (unsigned long long)storm_random(thread, STORM_NAMES));
	expect_on_snapshot(thread, "rename", snapshot.id,
			   pool_snapshot_rename(thread->pool, snapshot.id, name, &snapshot, &err),
			   &err);
}

/* Whoever has the file open for writing keeps it from happening. */
static void roll_back(struct storm_thread *thread)
{
	struct pool_snapshot snapshot;
	struct pool_rollback_spec spec = {.snapshot = snapshot.id};
	struct pool_rollback_result result;
	struct storm_written *written;
	struct cairn_err err = {0};
	char name[NAME_MAX_BYTES];
	int rc;

	if (!any_snapshot(thread, false, NULL, &snapshot))
		return;
	written = storm_written_of(thread->storm, snapshot.volume_id);
	if (!written)
		return;
	atomic_store(&written->rolled_back, true);
	snprintf(name, sizeof(name), "s%llu",
		 (unsigned long long)storm_random(thread, STORM_NAMES));
	if (storm_random(thread, 2))
		spec.keep_as = name;
	rc = pool_volume_rollback(thread->pool, &spec, &result, &err);
	expect_on_snapshot(thread, "roll back", snapshot.id, rc, &err);
	if (rc == 0 && result.kept.id[0])
		storm_ack(thread->storm, '+', result.kept.id);
}

static void query_delta(struct storm_thread *thread)
{
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
	struct pool_snapshot base, target;
	struct pool_delta_spec spec = {.base = base.id, .target = target.id};
	struct storm_sums base_sums, target_sums;
	struct cairn_err err = {0};
	int rc;

	if (!any_snapshot(thread, false, NULL, &target) ||
	    !any_snapshot(thread, true, storm_random(thread, 4) ? target.volume_id : NULL, &base))
		return;
	if (storm_random(thread, 5) == 0)
		spec.base = NULL;
	rc = pool_delta_open(thread->pool, &spec, &delta, &err);
	if (rc != CAIRN_INVALID) /* the wrong way round, or no relations */
		storm_expect("delta", target.id, rc, &err);
	if ((rc == CAIRN_NOT_FOUND || rc == CAIRN_PRECONDITION) && is_live(thread, target.id) &&
	    (!spec.base || is_live(thread, base.id)))
		storm_fail("delta from %s to %s, which are there: %s", base.id, target.id, err.msg);
	if (rc)
		atomic_fetch_add(&thread->storm->shared->refused, 1);
	if (rc == 0 && storm_sums_find(thread->storm, target.id, &target_sums) &&
	    (!spec.base || storm_sums_find(thread->storm, base.id, &base_sums)))
		(void)storm_delta_compare(thread->storm, delta, spec.base ? &base_sums : NULL,
					  &target_sums);
}

/* ---- the rest ------------------------------------------------------------ */

static void collect_garbage(struct storm_thread *thread)
{
	struct cairn_err err = {0};
	size_t merged;

	storm_expect("gc", "", pool_expire(thread->pool, 20, &merged, &err), &err);
}

static void change_note(struct storm_thread *thread)
{
	cairn_auto_free char *value = NULL;
	struct pool_note old = {0};
	struct pool_note now = {0};
	struct cairn_err err = {0};
	char key[NAME_MAX_BYTES];
	int rc;

	snprintf(key, sizeof(key), "storm/%llu", (unsigned long long)storm_random(thread, 5));
	rc = pool_note_get(thread->pool, key, &value, &old.len, &err);
	storm_expect("note", key, rc, &err);
	old.data = value;
	if (storm_random(thread, 2))
		now = (struct pool_note){key, strlen(key)};
	rc = pool_note_change(thread->pool, key, old, now, &err);
	storm_expect("note", key, rc, &err);
}

static void count_fault(void *arg, enum pool_fault_state state, const char *line)
{
	(void)arg;
	(void)state;
	fprintf(stderr, "storm: check beside it: %s\n", line);
}

static void check_pool(struct storm_thread *thread)
{
	struct pool_check_spec spec = {.fault = count_fault};
	struct pool_check_result result = {0};
	struct cairn_err err = {0};

	if (!thread->storm->checks)
		return;
	storm_expect("check", "", pool_check(thread->pool, &spec, &result, &err), &err);
	if (result.found)
		storm_fail("a check beside the storm found %llu faults",
			   (unsigned long long)result.found);
}

static const struct {
	unsigned weight;
	void (*run)(struct storm_thread *thread);
} operations[] = {
	{8, clone_volume},    {8, clone_snapshot},  {6, expand_volume}, {5, delete_volume},
	{40, write_block},    {20, cut_one},        {4, cut_group},     {14, delete_snapshot},
	{30, query_delta},    {4, collect_garbage}, {3, change_note},   {1, check_pool},
	{1, attach_volume},   {6, new_volume},      {6, roll_back},     {3, rename_volume},
	{5, rename_snapshot},
};

#define N_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

void storm_step(struct storm_thread *thread)
{
	unsigned total = 0;
	uint64_t at;

	for (size_t i = 0; i < N_OPERATIONS; i++)
		total += operations[i].weight;
	at = storm_random(thread, total);
	atomic_fetch_add(&thread->storm->shared->operations, 1);
	for (size_t i = 0; i < N_OPERATIONS; i++) {
		if (at < operations[i].weight) {
			if (operations[i].run != attach_volume || thread->storm->attach)
				operations[i].run(thread);
			return;
		}
		at -= operations[i].weight;
	}
}
