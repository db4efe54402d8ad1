/* SPDX-License-Identifier: Apache-2.0 */

/* What only the btrfs back end has: two methods, and compressed extents. */
#include "pool/btrfs/btrfs_delta.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fcntl.h>
#include <linux/fs.h>

#include "base/mem.h"
#include "cairntest.h"
#include "store_helper.h"

#define EXTENTS 40000U
#define STRIDE  8192U

static struct store *store;
static const char *dir;

static void cut(const char *id)
{
	struct cairn_err err = {0};

	assert_ok(cut_whole(store, "vol-1", id, &err), &err);
}

static const char *delta_by(enum btrfs_method method, const char *base, const char *target,
			    struct collected *c)
{
	struct store_delta_stats stats = {0};
	struct cairn_err err = {0};

	assert_ok(btrfs_store_delta(store, method, base, target, collected_sink(c), &stats, &err),
		  &err);
	return stats.method;
}

/* A volume of very many extents, as a filesystem in long use leaves it. */
static void make_fragmented(void)
{
	struct cairn_err err = {0};
	unsigned char block[4096];
	int fd;

	assert_ok(pool_store_volume_create(store, "vol-1", (uint64_t)EXTENTS * STRIDE, &err), &err);
	fd = open_volume(store, "vol-1");
	for (unsigned i = 0; i < EXTENTS; i++) {
		memset(block, (int)(i % 251) + 1, sizeof(block));
		assert_int_equal(pwrite(fd, block, sizeof(block), (off_t)i * STRIDE),
				 sizeof(block));
	}
	close(fd);
}

static int open_btrfs(enum scratchfs_kind kind)
{
	struct cairn_err err = {0};

	dir = scratchfs_make(kind, 1024 * MIB);
	if (!dir)
		return -1;
	assert_ok(pool_store_open("btrfs", dir, true, &store, &err), &err);
	return 0;
}

static void close_btrfs(void)
{
	pool_store_close(store);
	store = NULL;
	scratchfs_remove();
}

static void few_changes_in_many_extents_go_by_the_stream(void **state)
{
	struct collected tree = {0}, chosen = {0};
	int fd;

	(void)state;
	if (open_btrfs(SCRATCHFS_BTRFS) < 0)
		skip();
	make_fragmented();
	cut("snap-1");
	/* One before and one after where the search stops, a hole, and growth. */
	fill_at(store, "vol-1", 3ULL * STRIDE, 4096, 0xee);
	fill_at(store, "vol-1", (EXTENTS - 5ULL) * STRIDE, 4096, 0xee);
	fd = open_volume(store, "vol-1");
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   (EXTENTS - 50LL) * STRIDE, 4LL * STRIDE),
			 0);
	close(fd);
	assert_int_equal(
		pool_store_volume_resize(store, "vol-1", (uint64_t)EXTENTS * STRIDE + MIB, NULL),
		0);
	cut("snap-2");
	assert_string_equal(delta_by(BTRFS_METHOD_TREE, "snap-1", "snap-2", &tree), "tree");
	assert_string_equal(delta_by(BTRFS_METHOD_AUTO, "snap-1", "snap-2", &chosen), "send");
	assert_same_extents(&tree, &chosen);
	assert_true(covers(&chosen, (EXTENTS - 50ULL) * STRIDE, 4096));
	assert_true(covers(&chosen, (uint64_t)EXTENTS * STRIDE, MIB));
	collected_done(&tree);
	collected_done(&chosen);
	/* Many changes: the search goes on. */
	for (unsigned i = 0; i < EXTENTS; i += 40)
		fill_at(store, "vol-1", (uint64_t)i * STRIDE, 4096, 0xdd);
	cut("snap-3");
	assert_string_equal(delta_by(BTRFS_METHOD_AUTO, "snap-2", "snap-3", &chosen), "tree");
	assert_string_equal(delta_by(BTRFS_METHOD_SEND, "snap-2", "snap-3", &tree), "send");
	assert_same_extents(&tree, &chosen);
	assert_int_equal(chosen.n, EXTENTS / 40);
	collected_done(&tree);
	collected_done(&chosen);
	close_btrfs();
}

/* A stranger's file in the subvolume makes the stream tell of names. */
static void what_the_stream_cannot_tell_the_search_does(void **state)
{
	struct store_delta_stats stats;
	struct collected c = {0};
	struct cairn_err err = {0};
	char path[512];

	(void)state;
	if (open_btrfs(SCRATCHFS_BTRFS) < 0)
		skip();
	make_fragmented();
	cut("snap-1");
	fill_at(store, "vol-1", (EXTENTS - 5ULL) * STRIDE, 4096, 0xee);
	snprintf(path, sizeof(path), "%s/volumes/vol-1/stranger", dir);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	cut("snap-2");
	assert_code(btrfs_store_delta(store, BTRFS_METHOD_SEND, "snap-1", "snap-2",
				      collected_sink(&c), &stats, &err),
		    CAIRN_UNIMPLEMENTED);
	assert_int_equal(c.n, 0);
	assert_string_equal(delta_by(BTRFS_METHOD_AUTO, "snap-1", "snap-2", &c), "tree");
	assert_int_equal(c.n, 1);
	assert_true(covers(&c, (EXTENTS - 5ULL) * STRIDE, 4096));
	collected_done(&c);
	close_btrfs();
}

/* FIEMAP gives both halves of a compressed extent one address. */
static void pieces_of_a_compressed_extent_are_told_apart(void **state)
{
	struct collected tree = {0}, sent = {0}, mapped = {0};
	struct file_clone_range range = {
		.src_offset = 64 * KIB, .src_length = 64 * KIB, .dest_offset = 0};
	struct store *other = NULL;
	struct cairn_err err = {0};
	char path[300];
	int fd;

	(void)state;
	if (open_btrfs(SCRATCHFS_BTRFS_COMPRESSED) < 0)
		skip();
	snprintf(path, sizeof(path), "%s/r", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_ok(pool_store_open("reflink", path, true, &other, &err), &err);
	for (int i = 0; i < 2; i++) {
		struct store *s = i == 0 ? store : other;
		unsigned char bytes[128 * KIB];

		memset(bytes, 'a', 64 * KIB);
		memset(bytes + 64 * KIB, 'b', 64 * KIB);
		assert_ok(pool_store_volume_create(s, "vol-1", 8 * MIB, &err), &err);
		fd = open_volume(s, "vol-1");
		assert_int_equal(pwrite(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
		assert_ok(cut_whole(s, "vol-1", "snap-1", &err), &err);
		range.src_fd = fd;
		assert_int_equal(ioctl(fd, FICLONERANGE, &range), 0);
		close(fd);
		assert_ok(cut_whole(s, "vol-1", "snap-2", &err), &err);
	}
	assert_int_equal(byte_at(store, snapshot_ref("snap-2"), 0), 'b');
	delta_by(BTRFS_METHOD_TREE, "snap-1", "snap-2", &tree);
	delta_by(BTRFS_METHOD_SEND, "snap-1", "snap-2", &sent);
	assert_same_extents(&tree, &sent);
	assert_int_equal(tree.n, 1);
	assert_int_equal(tree.list[0].length, 64 * KIB);
	delta_of(other, "snap-1", "snap-2", &mapped);
	assert_true(covers(&mapped, 0, 64 * KIB));
	collected_done(&tree);
	collected_done(&sent);
	collected_done(&mapped);
	pool_store_close(other);
	close_btrfs();
}

static void short_memory_in_the_stream_is_an_error(void **state)
{
	size_t fails = 0;

	(void)state;
	if (open_btrfs(SCRATCHFS_BTRFS) < 0)
		skip();
	assert_int_equal(pool_store_volume_create(store, "vol-1", 8 * MIB, NULL), 0);
	cut("snap-1");
	for (unsigned i = 0; i < 600; i++)
		fill_at(store, "vol-1", i * STRIDE, 4096, 1);
	cut("snap-2");
	for (size_t at = 1; at < 50; at++) {
		struct store_delta_stats stats;
		struct collected c = {0};
		int rc;

		cairn_mem_fail_at(at, 0);
		rc = btrfs_store_delta(store, BTRFS_METHOD_SEND, "snap-1", "snap-2",
				       collected_sink(&c), &stats, NULL);
		cairn_mem_fail_at(0, 0);
		if (rc == 0)
			assert_int_equal(c.n, 600);
		collected_done(&c);
		if (rc == 0)
			break;
		assert_int_equal(rc, CAIRN_NO_SPACE);
		fails++;
	}
	assert_true(fails >= 6 && fails < 49);
	close_btrfs();
}

/* A volume of less than a sector's worth lives in the tree itself. */
static void inline_data_is_never_taken_as_equal(void **state)
{
	struct collected c = {0};

	(void)state;
	if (open_btrfs(SCRATCHFS_BTRFS) < 0)
		skip();
	assert_int_equal(pool_store_volume_create(store, "vol-1", 1024, NULL), 0);
	fill_at(store, "vol-1", 0, 1024, 1);
	cut("snap-1");
	fill_at(store, "vol-1", 0, 1024, 2);
	cut("snap-2");
	delta_of(store, "snap-1", "snap-2", &c);
	assert_true(covers(&c, 0, 1024));
	collected_done(&c);
	assert_int_equal(pool_store_volume_resize(store, "vol-1", 1 * MIB, NULL), 0);
	fill_at(store, "vol-1", 64 * KIB, 4096, 2);
	cut("snap-3");
	delta_of(store, "snap-2", "snap-3", &c);
	assert_true(covers(&c, 1024, MIB - 1024));
	collected_done(&c);
	close_btrfs();
}

#define BALANCED 3000U /* extents */
#define BALANCES 6U

struct balancing {
	unsigned reports, balances;
	uint64_t last;
};

/* Moves all data of the filesystem between two batches that a comparison reads. */
static void balance_between(void *arg, uint64_t done, uint64_t total)
{
	const char *const argv[] = {"btrfs", "balance", "start", "-dusage=100", dir, NULL};
	struct balancing *b = arg;

	(void)total;
	b->reports++;
	if (done == b->last || b->balances == BALANCES)
		return;
	b->last = done;
	b->balances += scratchfs_run(argv);
}

/* Every fourth block changed, and the target has more extents than the base, so that
 * batches of one side are compared with several of the other. */
static void a_comparison_is_exact_while_data_is_moved(void **state)
{
	struct balancing balancing = {0};
	const struct store_progress progress = {.report = balance_between, .arg = &balancing};
	struct store_delta_stats stats;
	struct collected c = {0};
	struct cairn_err err = {0};
	size_t changed = 0;

	(void)state;
	if (open_btrfs(SCRATCHFS_BTRFS) < 0)
		skip();
	assert_ok(pool_store_volume_create(store, "vol-1", (uint64_t)BALANCED * STRIDE, &err),
		  &err);
	for (unsigned i = 0; i < BALANCED; i++)
		fill_at(store, "vol-1", (uint64_t)i * STRIDE, 4096, (unsigned char)(i % 251 + 1));
	cut("snap-1");
	for (unsigned i = 0; i < BALANCED; i += 4)
		fill_at(store, "vol-1", (uint64_t)i * STRIDE, 4096, 0xff);
	for (unsigned i = 0; i < BALANCED; i += 2)
		fill_at(store, "vol-1", (uint64_t)i * STRIDE + 4096, 4096, 0xfe);
	cut("snap-2");
	assert_ok(pool_store_delta(store, "snap-1", "snap-2", collected_sink(&c), &progress, &stats,
				   &err),
		  &err);
	assert_true(balancing.balances > 0);
	for (size_t i = 0; i < c.n; i++)
		changed += c.list[i].length / 4096;
	for (unsigned i = 0; i < BALANCED; i += 4)
		assert_true(covers(&c, (uint64_t)i * STRIDE, 4096));
	for (unsigned i = 0; i < BALANCED; i += 2)
		assert_true(covers(&c, (uint64_t)i * STRIDE + 4096, 4096));
	assert_int_equal(changed, BALANCED / 4 + BALANCED / 2);
	collected_done(&c);
	close_btrfs();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_changes_in_many_extents_go_by_the_stream),
		cmocka_unit_test(what_the_stream_cannot_tell_the_search_does),
		cmocka_unit_test(pieces_of_a_compressed_extent_are_told_apart),
		cmocka_unit_test(short_memory_in_the_stream_is_an_error),
		cmocka_unit_test(inline_data_is_never_taken_as_equal),
		cmocka_unit_test(a_comparison_is_exact_while_data_is_moved),
	};

	if (!scratchfs_make(SCRATCHFS_BTRFS, 256 * MIB))
		return 77;
	scratchfs_remove();
	return cmocka_run_group_tests_name("pool/btrfs/delta", tests, NULL, NULL);
}
