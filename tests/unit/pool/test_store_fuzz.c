/* SPDX-License-Identifier: Apache-2.0 */

/* Random operations on a volume, snapshots in between, and every delta held
 * against what the test knows: nothing missed, nothing called zero that is not.
 *
 * CAIRN_FUZZ_ROUNDS makes it longer, CAIRN_FUZZ_SEED different.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/btrfs.h>

#include "base/num.h"
#include "cairntest.h"
#include "pool/btrfs/btrfs_delta.h"
#include "store_helper.h"
#include "volume_model.h"

#define IMAGE_SIZE (2048 * MIB)
#define FIRST_SIZE (24 * MIB)
#define STEPS      160
#define KEPT       3U
#define BLOCK      (4096U / MODEL_SECTOR)

struct cut {
	char id[32];
	uint32_t *sectors;
	size_t n;
};

struct tally {
	uint64_t changed, reported; /* blocks */
};

struct fuzz {
	struct store *store;
	struct volume_model model;
	struct cut cuts[KEPT]; /* oldest first */
	size_t n_cuts, made;
	struct tally whole, sent;
};

static uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t value;

	return text && cairn_parse_u64(text, &value, NULL) == 0 ? value : otherwise;
}

static bool differs(const struct cut *base, const struct cut *target, size_t sector)
{
	return sector >= base->n || base->sectors[sector] != target->sectors[sector];
}

/* Every sector that differs must be covered, and zero must be zero. */
static void check_delta(const struct cut *base, const struct cut *target, const struct collected *c,
			struct tally *tally)
{
	bool block_changed = false, block_covered = false;
	size_t at = 0;

	for (size_t s = 0; s < target->n; s++) {
		while (at < c->n && block_extent_end(&c->list[at]) <= s * MODEL_SECTOR)
			at++;
		bool covered = at < c->n && c->list[at].offset <= s * MODEL_SECTOR;
		bool changed = differs(base, target, s);

		if (changed && !covered)
			fail_msg("%s to %s: sector %zu is missed", base->id, target->id, s);
		if (covered && c->list[at].zero && target->sectors[s] != 0)
			fail_msg("%s to %s: sector %zu is called zero", base->id, target->id, s);
		block_changed = block_changed || changed;
		block_covered = block_covered || covered;
		if (s % BLOCK == BLOCK - 1 || s + 1 == target->n) {
			tally->changed += block_changed;
			tally->reported += block_covered;
			block_changed = block_covered = false;
		}
	}
}

/* Both methods alone, and each against the other. */
static void compare_methods(struct fuzz *f, const struct cut *base, const struct cut *target)
{
	static const enum btrfs_method methods[] = {BTRFS_METHOD_TREE, BTRFS_METHOD_SEND};
	struct collected found[ARRAY_LEN(methods)] = {{0}};

	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		struct store_delta_stats stats;
		struct cairn_err err = {0};

		assert_ok(btrfs_store_delta(f->store, methods[i], base->id, target->id,
					    collected_sink(&found[i]), &stats, &err),
			  &err);
		assert_string_equal(stats.method, i == 0 ? "tree" : "send");
		check_delta(base, target, &found[i], i == 0 ? &f->whole : &f->sent);
	}
	assert_same_extents(&found[0], &found[1]);
	collected_done(&found[0]);
	collected_done(&found[1]);
}

static void compare(struct fuzz *f, const struct cut *base, const struct cut *target)
{
	struct collected all = {0};

	if (strcmp(pool_store_backend(f->store), "btrfs") == 0) {
		compare_methods(f, base, target);
		return;
	}
	delta_of(f->store, base->id, target->id, &all);
	check_delta(base, target, &all, &f->whole);
	collected_done(&all);
}

static void check_bytes(struct fuzz *f, const struct cut *cut)
{
	struct store_reader *reader = NULL;
	struct cairn_err err = {0};
	unsigned char *bytes = malloc(MIB);

	assert_non_null(bytes);
	assert_ok(pool_store_reader_open(f->store, snapshot_ref(cut->id), &reader, &err), &err);
	for (uint64_t at = 0; at < cut->n * MODEL_SECTOR; at += MIB) {
		size_t n = 0;

		assert_ok(pool_store_reader_read(reader, at, bytes, MIB, &n, &err), &err);
		assert_true(model_fits(cut->sectors + at / MODEL_SECTOR, n / MODEL_SECTOR, bytes));
	}
	pool_store_reader_free(reader);
	free(bytes);
}

static void drop_oldest(struct fuzz *f)
{
	struct cairn_err err = {0};

	assert_ok(pool_store_remove(f->store, snapshot_ref(f->cuts[0].id), &err), &err);
	free(f->cuts[0].sectors);
	memmove(f->cuts, f->cuts + 1, (KEPT - 1) * sizeof(f->cuts[0]));
	f->n_cuts--;
}

static void cut_and_compare(struct fuzz *f)
{
	struct cairn_err err = {0};
	struct cut *cut;

	if (f->n_cuts == KEPT)
		drop_oldest(f);
	cut = &f->cuts[f->n_cuts++];
	snprintf(cut->id, sizeof(cut->id), "snap-%zu", f->made++);
	assert_ok(cut_whole(f->store, "vol-1", cut->id, &err), &err);
	cut->sectors = model_copy(&f->model);
	cut->n = f->model.n;
	check_bytes(f, cut);
	for (size_t i = 0; i + 1 < f->n_cuts; i++)
		compare(f, &f->cuts[i], cut);
}

/* What only btrfs can do to a file behind everybody's back. */
static void disturb_btrfs(struct fuzz *f, const char *dir, int fd, size_t round)
{
	const char *const balance[] = {"btrfs", "balance", "start", "-dlimit=1", dir, NULL};
	struct btrfs_ioctl_defrag_range_args range = {
		.start = volume_model_random(&f->model, f->model.n) * MODEL_SECTOR,
		.len = 4 * MIB,
		.extent_thresh = 1 * MIB,
	};

	if (round % 3 == 1)
		assert_int_equal(ioctl(fd, BTRFS_IOC_DEFRAG_RANGE, &range), 0);
	if (round % 5 == 4)
		assert_true(scratchfs_run(balance));
}

static void grow(struct fuzz *f)
{
	size_t n = f->model.n + 1 + volume_model_random(&f->model, 2048);
	struct cairn_err err = {0};

	assert_ok(pool_store_volume_resize(f->store, "vol-1", n * MODEL_SECTOR, &err), &err);
	model_grow(&f->model, n);
}

/* Continues on a clone of the newest snapshot. */
static void restore(struct fuzz *f)
{
	const struct cut *cut = &f->cuts[f->n_cuts - 1];
	struct cairn_err err = {0};

	assert_ok(pool_store_remove(f->store, volume_ref("vol-1"), &err), &err);
	assert_ok(pool_store_volume_clone(f->store, "vol-1", cut->id, cut->n * MODEL_SECTOR,
					  cut->n * MODEL_SECTOR, &err),
		  &err);
	f->model.n = cut->n;
	memcpy(f->model.sectors, cut->sectors, cut->n * sizeof(*cut->sectors));
}

static void run_rounds(struct fuzz *f, const char *dir, bool btrfs)
{
	size_t rounds = (size_t)env_number("CAIRN_FUZZ_ROUNDS", 8);

	for (size_t round = 0; round < rounds; round++) {
		int fd = open_volume(f->store, "vol-1");

		for (size_t i = 0; i < STEPS; i++)
			model_step(&f->model, fd);
		if (btrfs)
			disturb_btrfs(f, dir, fd, round);
		close(fd);
		if (round % 4 == 2 && f->model.n * MODEL_SECTOR < 4 * FIRST_SIZE)
			grow(f);
		cut_and_compare(f);
		if (round % 6 == 5)
			restore(f);
	}
}

static void print_tally(const char *label, const struct tally *t)
{
	printf("%s: %" PRIu64 " changed blocks, 0 missed, %.1f %% over-reported\n", label,
	       t->changed, 100.0 * ((double)t->reported / (double)t->changed - 1));
}

static void fuzz(const char *backend, enum scratchfs_kind kind, const char *label)
{
	bool btrfs = kind == SCRATCHFS_BTRFS || kind == SCRATCHFS_BTRFS_COMPRESSED;
	struct fuzz f = {.model = {.next = 1, .clones = kind != SCRATCHFS_PLAIN}};
	const char *dir = scratchfs_make(kind, IMAGE_SIZE);
	struct cairn_err err = {0};

	if (!dir)
		skip();
	f.model.random = env_number("CAIRN_FUZZ_SEED", 0x9e3779b97f4a7c15) | 1;
	assert_ok(pool_store_open(backend, dir, true, &f.store, &err), &err);
	assert_ok(pool_store_volume_create(f.store, "vol-1", FIRST_SIZE, &err), &err);
	model_grow(&f.model, FIRST_SIZE / MODEL_SECTOR);
	run_rounds(&f, dir, btrfs);
	print_tally(label, &f.whole);
	if (f.sent.changed > 0)
		print_tally("  its send stream", &f.sent);
	assert_true(f.whole.changed > 0);
	while (f.n_cuts > 0)
		drop_oldest(&f);
	free(f.model.sectors);
	pool_store_close(f.store);
	scratchfs_remove();
}

static void copy_misses_nothing(void **state)
{
	(void)state;
	fuzz("copy", SCRATCHFS_PLAIN, "copy");
}

static void reflink_on_xfs_misses_nothing(void **state)
{
	(void)state;
	fuzz("reflink", SCRATCHFS_XFS, "reflink on XFS");
}

static void reflink_on_btrfs_misses_nothing(void **state)
{
	(void)state;
	fuzz("reflink", SCRATCHFS_BTRFS, "reflink on btrfs");
}

static void reflink_on_compressed_btrfs_misses_nothing(void **state)
{
	(void)state;
	fuzz("reflink", SCRATCHFS_BTRFS_COMPRESSED, "reflink on compressed btrfs");
}

static void btrfs_misses_nothing(void **state)
{
	(void)state;
	fuzz("btrfs", SCRATCHFS_BTRFS, "btrfs");
}

static void compressed_btrfs_misses_nothing(void **state)
{
	(void)state;
	fuzz("btrfs", SCRATCHFS_BTRFS_COMPRESSED, "compressed btrfs");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy_misses_nothing),
		cmocka_unit_test(reflink_on_xfs_misses_nothing),
		cmocka_unit_test(reflink_on_btrfs_misses_nothing),
		cmocka_unit_test(reflink_on_compressed_btrfs_misses_nothing),
		cmocka_unit_test(btrfs_misses_nothing),
		cmocka_unit_test(compressed_btrfs_misses_nothing),
	};

	return cmocka_run_group_tests_name("pool/store fuzz", tests, NULL, NULL);
}
