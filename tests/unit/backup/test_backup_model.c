/* SPDX-License-Identifier: Apache-2.0 */

/* Backups of several volumes against a model, while files of the repository are lost, cut
 * short, changed and exchanged.
 *
 * The model knows the bytes of every snapshot, and of every backup whether something that
 * it may need was damaged since. What it holds the program to:
 *   - a restore gives the bytes of the snapshot, or an error that says that data is lost;
 *   - a backup is restored whole when nothing was damaged since it was made, also when
 *     packs were lost or cut short before: only what cannot be seen in a listing, a bit
 *     that is another, may mislead it, and only until the next repair;
 *   - a backup that a check does not name can be restored;
 *   - after a repair, backups can be made, and a check finds what the repair left.
 *
 * The argument is the number of steps; CAIRN_MODEL_SEED repeats a run. */

#include "cairntest.h"

#include "memory_reader.h"
#include "repofix.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup/create.h"
#include "backup/image.h"
#include "backup/source.h"
#include "backup/view.h"
#include "backup/zeros.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/num.h"
#include "block/extent.h"
#include "pool/store/store.h"
#include "repo/prune.h"
#include "repo/repo_check.h"

#define BLOCK     4096U
#define BLOCKS    96U
#define SIZE      (BLOCKS * BLOCK)
#define VOLUMES   3U
#define SNAPSHOTS 24U /* of a volume that are remembered, the last ones */
#define BACKUPS   64U

static uint64_t steps = 500;

struct cut {
	unsigned number;
	uint8_t bytes[SIZE];
};

struct volume {
	char id[16];
	uint8_t bytes[SIZE];
	struct cut cuts[SNAPSHOTS]; /* by number % SNAPSHOTS */
	unsigned n;                 /* numbers given so far; the first is 1 */
};

struct backup {
	struct repo_id id;
	uint8_t *bytes; /* of its snapshot; NULL: free */
	bool suspect;   /* something was damaged since */
	bool named;     /* by the last check */
};

struct model {
	struct repofix *fix;
	uint64_t random;
	struct volume *volumes;
	struct backup backups[BACKUPS];
	bool hidden; /* damage that no listing shows and no repair saw */
	bool broken; /* damage of any kind that no repair saw */
	unsigned made, restored, lost, repaired, pruned, damaged;
};

static uint64_t pick(struct model *model, uint64_t below)
{
	model->random ^= model->random << 13;
	model->random ^= model->random >> 7;
	model->random ^= model->random << 17;
	return model->random % below;
}

/* ---- a volume as a source of backups ----------------------------------------- */

struct source {
	struct backup_source base;
	struct volume *volume;
	const struct cut *cut;
	char name[32];
};

static int open_reader(struct backup_source *base, struct store_reader **ret, struct cairn_err *err)
{
	(void)err;
	*ret = memory_reader_new(((struct source *)base)->cut->bytes, SIZE);
	return 0;
}

static const struct cut *find_cut(const struct volume *volume, uint64_t number)
{
	const struct cut *cut = &volume->cuts[number % SNAPSHOTS];

	return cut->number == number ? cut : NULL;
}

static int tell_blocks(const uint8_t *a, const uint8_t *b, struct block_sink sink,
		       struct cairn_err *err)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < BLOCKS; i++)
		if (memcmp(a + i * BLOCK, b + i * BLOCK, BLOCK) != 0)
			rc = sink.emit(sink.arg,
				       &(struct block_extent){.offset = (uint64_t)i * BLOCK,
							      .length = BLOCK},
				       err);
	return rc;
}

static int changed(struct backup_source *base, const char *since, struct block_sink sink,
		   struct cairn_err *err)
{
	const struct source *source = (struct source *)base;
	const char *dash = strrchr(since, '-');
	const struct cut *other;
	uint64_t number;

	assert_non_null(dash);
	assert_ok(cairn_parse_u64(dash + 1, &number, err), err);
	other = find_cut(source->volume, number);
	if (!other)
		return cairn_err_set(err, CAIRN_PRECONDITION, "too long ago");
	return tell_blocks(source->cut->bytes, other->bytes, sink, err);
}

static int allocated(struct backup_source *base, struct block_sink sink, struct cairn_err *err)
{
	static const uint8_t zeros[SIZE];

	return tell_blocks(((struct source *)base)->cut->bytes, zeros, sink, err);
}

static int lineage(struct backup_source *base,
		   int (*fn)(void *arg, const char *snapshot_id, uint64_t created_ns,
			     struct cairn_err *err),
		   void *arg, struct cairn_err *err)
{
	const struct source *source = (struct source *)base;
	int rc = 0;

	for (unsigned i = source->cut->number; rc == 0 && i > 0; i--) {
		char name[32];

		if (!find_cut(source->volume, i))
			break;
		snprintf(name, sizeof(name), "%s-%u", source->volume->id, i);
		rc = fn(arg, name, 0, err);
	}
	return rc;
}

static void close_nothing(struct backup_source *source)
{
	(void)source;
}

static const struct backup_source_ops source_ops = {.name = "model",
						    .close = close_nothing,
						    .reader_open = open_reader,
						    .changed = changed,
						    .allocated = allocated,
						    .lineage = lineage};

/* ---- steps ------------------------------------------------------------------- */

static void open_repo(struct model *model, enum repo_lock_kind lock)
{
	struct repo_options options = repofix_options(model->fix, lock);
	struct cairn_err err = {0};
	char cache[128];

	snprintf(cache, sizeof(cache), "%s/cache", model->fix->dir);
	options.cache_dir = cache;
	options.cache_min = 1;
	repofix_close(model->fix);
	assert_ok(repo_open(&options, &model->fix->repo, &err), &err);
}

static void change(struct model *model)
{
	struct volume *volume = &model->volumes[pick(model, VOLUMES)];

	for (uint64_t n = 1 + pick(model, 12); n > 0; n--) {
		uint8_t *block = volume->bytes + pick(model, BLOCKS) * BLOCK;

		if (pick(model, 5) == 0)
			memset(block, 0, BLOCK);
		else /* few different ones, so that volumes have chunks in common */
			repofix_bytes(pick(model, 200), block, BLOCK);
	}
}

static const struct cut *cut_volume(struct volume *volume)
{
	struct cut *cut = &volume->cuts[++volume->n % SNAPSHOTS];

	cut->number = volume->n;
	memcpy(cut->bytes, volume->bytes, SIZE);
	return cut;
}

static void remember(struct model *model, const struct repo_id *id, const uint8_t *bytes)
{
	struct backup *backup = NULL;

	for (unsigned i = 0; i < BACKUPS && !backup; i++)
		backup = model->backups[i].bytes ? NULL : &model->backups[i];
	assert_non_null(backup);
	*backup = (struct backup){.id = *id, .bytes = malloc(SIZE), .suspect = model->hidden};
	assert_non_null(backup->bytes);
	memcpy(backup->bytes, bytes, SIZE);
	model->made++;
}

static unsigned count_backups(const struct model *model)
{
	unsigned n = 0;

	for (unsigned i = 0; i < BACKUPS; i++)
		n += model->backups[i].bytes != NULL;
	return n;
}

/* The first volume is in segments from its first backup on, the last one from its tenth
 * on, the one between is a file. */
static uint64_t segment_of(const struct model *model, const struct volume *volume)
{
	if (volume == &model->volumes[0])
		return 4 * BLOCK;
	return volume == &model->volumes[2] && volume->n >= 10 ? 8 * BLOCK : 0;
}

static void back_up(struct model *model)
{
	struct volume *volume = &model->volumes[pick(model, VOLUMES)];
	struct backup_create_options options = {.version = "test", .threads = 1};
	struct source source = {.volume = volume};
	struct backup_result result = {0};
	struct cairn_err err = {0};
	int rc;

	if (count_backups(model) == BACKUPS)
		return;
	source.cut = cut_volume(volume);
	options.segment = segment_of(model, volume);
	snprintf(source.name, sizeof(source.name), "%s-%u", volume->id, volume->n);
	source.base = (struct backup_source){.ops = &source_ops,
					     .volume_id = volume->id,
					     .volume_name = volume->id,
					     .snapshot_id = source.name,
					     .snapshot_name = source.name,
					     .size = SIZE,
					     .created_ns = cairn_now_ns()};
	open_repo(model, REPO_LOCK_SHARED);
	rc = backup_create(model->fix->repo, &source.base, &options, &result, &err);
	if (rc && model->broken && (rc == CAIRN_DATA_LOSS || rc == CAIRN_RANGE))
		return;
	assert_ok(rc, &err);
	remember(model, &result.id, source.cut->bytes);
}

/* Reads the backup; an error of the code that data is lost is a result too. */
static int read_backup(struct model *model, const struct backup *backup, uint8_t *out,
		       struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	cairn_cleanup(backup_zeros_freep) struct zeros *zeros = NULL;
	cairn_cleanup(backup_view_freep) struct view *view = NULL;
	struct image image = {0};
	size_t n = 0;
	int rc;

	open_repo(model, REPO_LOCK_SHARED);
	rc = repo_load_index(model->fix->repo, err);
	if (rc == 0)
		rc = repo_snapshot_load(model->fix->repo, &backup->id, &snapshot, err);
	if (rc == 0)
		rc = backup_zeros_new(&zeros, err);
	if (rc == 0)
		rc = backup_image_open(model->fix->repo, snapshot, NULL, zeros, &image, err);
	if (rc == 0)
		rc = backup_view_new(model->fix->repo, &image, &view, err);
	if (rc == 0)
		rc = backup_view_read(view, 0, out, SIZE, &n, err);
	if (rc == 0)
		assert_int_equal(n, SIZE);
	return rc;
}

static void restore(struct model *model, struct backup *backup)
{
	static uint8_t out[SIZE];
	struct cairn_err err = {0};
	int rc = read_backup(model, backup, out, &err);

	if (rc == 0) {
		assert_memory_equal(out, backup->bytes, SIZE);
		model->restored++;
		return;
	}
	if (!backup->suspect)
		fail_msg("nothing of it was damaged: %s", err.msg);
	if (rc != CAIRN_DATA_LOSS && rc != CAIRN_NOT_FOUND && rc != CAIRN_RANGE)
		fail_msg("this does not say that data is lost: %s", err.msg);
	model->lost++;
}

static struct backup *any_backup(struct model *model)
{
	uint64_t skip = pick(model, BACKUPS);

	for (unsigned i = 0; i < BACKUPS; i++) {
		struct backup *backup = &model->backups[(i + skip) % BACKUPS];

		if (backup->bytes)
			return backup;
	}
	return NULL;
}

static void forget_backup(struct backup *backup)
{
	free(backup->bytes);
	*backup = (struct backup){0};
}

static void forget(struct model *model)
{
	struct backup *backup = any_backup(model);
	struct cairn_err err = {0};

	open_repo(model, REPO_LOCK_EXCLUSIVE);
	assert_ok(repo_snapshot_remove(model->fix->repo, &backup->id, &err), &err);
	forget_backup(backup);
}

static void prune(struct model *model)
{
	struct repo_prune_options options = {.max_unused_tenth = REPO_PRUNE_MAX_UNUSED};
	struct repo_prune_stats stats;
	struct cairn_err err = {0};
	bool damaged = model->broken;
	int rc;

	for (unsigned i = 0; i < BACKUPS; i++)
		damaged |= model->backups[i].suspect;
	open_repo(model, REPO_LOCK_EXCLUSIVE);
	rc = repo_prune(model->fix->repo, &options, &stats, &err);
	if (rc == 0 || (damaged && (rc == CAIRN_DATA_LOSS || rc == CAIRN_RANGE)))
		model->pruned += rc == 0;
	else
		fail_msg("nothing was damaged: %s", err.msg);
}

/* ---- damage ------------------------------------------------------------------ */

/* The paths of the files of a kind; the caller's. */
static size_t list_files(const struct model *model, const char *kind, char *paths[], size_t max)
{
	char dir[512];
	size_t n = 0;
	bool packs = strcmp(kind, "data") == 0;

	for (unsigned sub = 0; sub < (packs ? 256U : 1U); sub++) {
		struct dirent *entry;
		DIR *d;

		snprintf(dir, sizeof(dir), packs ? "%s/%s/%02x" : "%s/%s", model->fix->path, kind,
			 sub);
		d = opendir(dir);
		while (d && (entry = readdir(d)))
			if (strlen(entry->d_name) == 64 && n < max)
				assert_true(asprintf(&paths[n++], "%s/%s", dir, entry->d_name) > 0);
		if (d)
			closedir(d);
	}
	return n;
}

static uint8_t *load_file(const char *path, size_t *ret_n)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(1 << 20);

	assert_non_null(file);
	assert_non_null(data);
	*ret_n = fread(data, 1, 1 << 20, file);
	fclose(file);
	return data;
}

static void store_file(const char *path, const uint8_t *data, size_t n)
{
	FILE *file;

	assert_int_equal(chmod(path, 0600), 0);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, n, file), n);
	fclose(file);
}

/* True when no listing shows it. */
static bool damage_file(struct model *model, const char *path, const char *other)
{
	size_t n, other_n;
	cairn_auto_free uint8_t *data = load_file(path, &n);
	cairn_auto_free uint8_t *instead = load_file(other, &other_n);

	switch (pick(model, 4)) {
	case 0:
		assert_int_equal(unlink(path), 0);
		return false;
	case 1:
		store_file(path, data, pick(model, n));
		return false;
	case 2:
		data[pick(model, n)] ^= (uint8_t)(1 << pick(model, 8));
		store_file(path, data, n);
		return true;
	default:
		store_file(path, instead, other_n);
		return true;
	}
}

static void damage(struct model *model)
{
	static const char *const kinds[] = {"data", "data", "data", "data", "index", "snapshots"};
	const char *kind = kinds[pick(model, ARRAY_LEN(kinds))];
	static char *paths[4096];
	size_t n = list_files(model, kind, paths, ARRAY_LEN(paths));

	repofix_close(model->fix);
	if (n > 1) {
		const char *victim = paths[pick(model, n)];

		model->hidden |= damage_file(model, victim, paths[pick(model, n)]);
		model->broken = true;
		model->damaged++;
		for (unsigned i = 0; i < BACKUPS; i++)
			model->backups[i].suspect |= model->backups[i].bytes != NULL;
	}
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
}

/* ---- checks and repairs ------------------------------------------------------ */

static void see_damage(void *arg, const struct repo_damage *damage)
{
	struct model *model = arg;

	for (unsigned i = 0; i < BACKUPS; i++)
		if (model->backups[i].bytes &&
		    repo_id_equal(&model->backups[i].id, &damage->snapshot->id))
			model->backups[i].named = true;
}

static uint64_t check(struct model *model, bool repair)
{
	struct repo_check_options options = {
		.read_data = true, .repair = repair, .damage = see_damage, .arg = model};
	struct repo_check_stats stats = {0};
	struct cairn_err err = {0};

	for (unsigned i = 0; i < BACKUPS; i++)
		model->backups[i].named = false;
	assert_ok(repo_check(model->fix->repo, &options, &stats, &err), &err);
	return stats.problems;
}

static void restore_all(struct model *model)
{
	for (unsigned i = 0; i < BACKUPS; i++)
		if (model->backups[i].bytes && !model->backups[i].named)
			restore(model, &model->backups[i]);
}

/* What people do with a snapshot that cannot be read any more. */
static void drop_unreadable_snapshots(struct model *model)
{
	for (unsigned i = 0; i < BACKUPS; i++) {
		struct backup *backup = &model->backups[i];
		struct repo_snapshot *snapshot = NULL;

		if (!backup->bytes)
			continue;
		if (repo_snapshot_load(model->fix->repo, &backup->id, &snapshot, NULL) == 0) {
			repo_snapshot_free(snapshot);
			continue;
		}
		assert_true(backup->suspect);
		assert_int_equal(repo_snapshot_remove(model->fix->repo, &backup->id, NULL), 0);
		forget_backup(backup);
		model->lost++;
	}
}

/* After which nothing keeps a prune from its work. */
static void forget_named(struct model *model)
{
	for (unsigned i = 0; i < BACKUPS; i++) {
		struct backup *backup = &model->backups[i];

		if (!backup->bytes || !backup->named)
			continue;
		assert_int_equal(repo_snapshot_remove(model->fix->repo, &backup->id, NULL), 0);
		forget_backup(backup);
	}
	assert_int_equal(check(model, false), 0);
}

static void repair(struct model *model)
{
	struct cairn_err err = {0};

	open_repo(model, REPO_LOCK_EXCLUSIVE);
	drop_unreadable_snapshots(model);
	assert_ok(repo_repair_index(model->fix->repo, NULL, &err), &err);
	(void)check(model, true);
	model->hidden = model->broken = false;
	model->repaired++;
	/* What the repair did not name is whole; what it named a new look names too. */
	for (unsigned i = 0; i < BACKUPS; i++)
		model->backups[i].suspect = model->backups[i].named;
	(void)check(model, false);
	for (unsigned i = 0; i < BACKUPS; i++)
		assert_int_equal(model->backups[i].suspect, model->backups[i].named);
	if (pick(model, 2) == 0)
		forget_named(model);
	restore_all(model);
}

static void take_step(struct model *model)
{
	uint64_t dice = pick(model, 100);

	if (count_backups(model) < 2 || dice < 30)
		back_up(model);
	else if (dice < 50)
		change(model);
	else if (dice < 75)
		restore(model, any_backup(model));
	else if (dice < (count_backups(model) > 20 ? 85 : 80))
		forget(model);
	else if (dice < 88)
		prune(model);
	else if (dice < 96)
		damage(model);
	else
		repair(model);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t value = otherwise;

	if (text)
		assert_int_equal(cairn_parse_u64(text, &value, NULL), 0);
	return value;
}

static void what_is_restored_is_right_or_known_to_be_lost(void **state)
{
	uint64_t seed = from_environment("CAIRN_MODEL_SEED", cairn_now_ns() | 1);
	struct model model = {.fix = *state, .random = seed};

	print_message("CAIRN_MODEL_SEED=%llu\n", (unsigned long long)seed);
	model.volumes = calloc(VOLUMES, sizeof(*model.volumes));
	assert_non_null(model.volumes);
	for (unsigned i = 0; i < VOLUMES; i++) {
		snprintf(model.volumes[i].id, sizeof(model.volumes[i].id), "vol%u", i);
		repofix_bytes(1000 + i, model.volumes[i].bytes, SIZE / 2);
	}
	for (uint64_t i = 0; i < steps; i++)
		take_step(&model);
	repair(&model);
	print_message("%u made, %u restored, %u lost, %u damaged, %u repaired, %u pruned\n",
		      model.made, model.restored, model.lost, model.damaged, model.repaired,
		      model.pruned);
	for (unsigned i = 0; i < BACKUPS; i++)
		free(model.backups[i].bytes);
	free(model.volumes);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_restored_is_right_or_known_to_be_lost,
						repofix_setup, repofix_teardown),
	};

	if (argc > 1 && cairn_parse_u64(argv[1], &steps, NULL) < 0)
		return 2;
	return cmocka_run_group_tests_name("backup/model", tests, NULL, NULL);
}
