/* SPDX-License-Identifier: Apache-2.0 */

/* Damaged records: one value of the catalogue or one set file is damaged in each
 * way there is, then the pool is checked, repaired, checked and used. What could be
 * read before can be read after, byte for byte; nothing is removed; a delta is
 * right or refused, never wrong.
 *
 * With "--all" every key is damaged, not only some of each kind.
 */

#include "cairntest.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "pool/catalogue/catalogue.h"
#include "pool/catalogue/front_end_note.h"
#include "pool/catalogue/record.h"
#include "pool/store/store.h"
#include "poolfix.h"

#define BLOCKS     16U
#define ITEMS_MAX  64U
#define KEYS_MAX   256U
#define SUM        8U
#define KEYS_A_RUN 2U /* of each kind, unless all are asked for */

/* A volume or snapshot as it was made. */
struct item {
	char id[POOL_ID_MAX + 1];
	bool is_volume;
	bool live;
	uint8_t blocks[BLOCKS];
	unsigned n_blocks;
};

struct world {
	struct poolfix fix;
	struct item items[ITEMS_MAX];
	size_t n;
};

struct stored {
	uint8_t key[CATALOGUE_KEY_MAX];
	int key_len;
	uint8_t value[4096];
	int value_len;
};

static struct world template;
static struct stored keys[KEYS_MAX];
static size_t n_keys;
static bool all_keys;
static const char *case_text = "";

/* ---- the pool before ----------------------------------------------------- */

static struct item *add_item(struct world *w, const char *id, bool is_volume)
{
	struct item *item = &w->items[w->n++];

	assert_true(w->n <= ITEMS_MAX);
	snprintf(item->id, sizeof(item->id), "%s", id);
	item->is_volume = is_volume;
	item->live = true;
	item->n_blocks = BLOCKS / 2;
	return item;
}

static struct item *make_volume(struct world *w, const char *name, const char *from,
				const struct item *source)
{
	struct pool_volume_spec spec = {
		.name = name, .from = from, .size = from ? 0 : BLOCKS / 2 * BLK};
	struct pool_volume volume;
	struct cairn_err err = {0};
	struct item *item;

	assert_ok(pool_volume_create(w->fix.pool, &spec, &volume, &err), &err);
	item = add_item(w, volume.id, true);
	if (source) {
		memcpy(item->blocks, source->blocks, sizeof(item->blocks));
		item->n_blocks = source->n_blocks;
	}
	return item;
}

static void write_block(struct world *w, struct item *volume, unsigned block, uint8_t byte)
{
	poolfix_write(&w->fix, volume->id, block, byte);
	volume->blocks[block] = byte;
}

static struct item *cut(struct world *w, const struct item *volume, const char *name)
{
	struct pool_snapshot_spec spec = {.volume = volume->id, .name = name};
	struct pool_snapshot made;
	struct cairn_err err = {0};
	struct item *item;

	assert_ok(pool_snapshot_create(w->fix.pool, &spec, 1, &made, &err), &err);
	assert_ok(pool_snapshot_complete(w->fix.pool, made.id, NULL, &err), &err);
	item = add_item(w, made.id, false);
	memcpy(item->blocks, volume->blocks, sizeof(item->blocks));
	item->n_blocks = volume->n_blocks;
	return item;
}

static void delete_snapshot(struct world *w, struct item *item)
{
	struct cairn_err err = {0};

	assert_ok(pool_snapshot_delete(w->fix.pool, item->id, &err), &err);
	item->live = false;
}

/* A line with a tombstone, a clone of a snapshot, one of a volume (with its hidden
 * snapshot), a grown volume, a deleted volume whose snapshot lives, a note. */
static void build(struct world *w)
{
	struct item *line = make_volume(w, "line", NULL, NULL);
	struct item *snapshots[5];
	struct item *clone;
	struct item *gone;
	struct pool_volume grown;
	struct cairn_err err = {0};

	for (unsigned i = 0; i < 5; i++) {
		char name[8];

		write_block(w, line, i, (uint8_t)('a' + i));
		snprintf(name, sizeof(name), "s%u", i);
		snapshots[i] = cut(w, line, name);
	}
	delete_snapshot(w, snapshots[1]);
	clone = make_volume(w, "clone", snapshots[2]->id, snapshots[2]);
	write_block(w, clone, 6, 'k');
	cut(w, clone, "k0");
	assert_ok(pool_volume_expand(w->fix.pool, clone->id, BLOCKS * BLK, &grown, &err), &err);
	clone->n_blocks = BLOCKS;
	write_block(w, clone, 12, 'g');
	cut(w, clone, "k1");
	make_volume(w, "copy", line->id, line);
	write_block(w, line, 7, 'z');
	gone = make_volume(w, "gone", NULL, NULL);
	write_block(w, gone, 0, 'q');
	cut(w, gone, "g0");
	assert_ok(pool_volume_delete(w->fix.pool, gone->id, POOL_DELETE_KEEP_SNAPSHOTS, &err),
		  &err);
	gone->live = false;
	assert_ok(pool_note_put(w->fix.pool, "test/note", "value", &err), &err);
}

/* ---- copies of it -------------------------------------------------------- */

static void copy_file(int from_dir, int to_dir, const char *name)
{
	int from = openat(from_dir, name, O_RDONLY | O_CLOEXEC);
	int to;
	struct stat st;
	char buf[65536];
	ssize_t n;

	assert_true(from >= 0);
	assert_int_equal(fstat(from, &st), 0);
	to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0777);
	assert_true(to >= 0);
	while ((n = read(from, buf, sizeof(buf))) > 0)
		assert_int_equal(write(to, buf, (size_t)n), n);
	assert_int_equal(n, 0);
	close(from);
	close(to);
}

static void copy_tree(int from, int to)
{
	DIR *dir = fdopendir(openat(from, ".", O_RDONLY | O_DIRECTORY));
	struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		struct stat st;

		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		assert_int_equal(fstatat(from, entry->d_name, &st, AT_SYMLINK_NOFOLLOW), 0);
		if (S_ISDIR(st.st_mode)) {
			int below_from = openat(from, entry->d_name, O_RDONLY | O_DIRECTORY);
			int below_to;

			assert_int_equal(mkdirat(to, entry->d_name, 0700), 0);
			below_to = openat(to, entry->d_name, O_RDONLY | O_DIRECTORY);
			copy_tree(below_from, below_to);
			close(below_from);
			close(below_to);
		} else {
			copy_file(from, to, entry->d_name);
		}
	}
	closedir(dir);
}

/* A copy of the template, closed. */
static struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof(*w));
	int from = open(template.fix.dir, O_RDONLY | O_DIRECTORY);
	int to;

	*w = template;
	w->fix.pool = NULL;
	/* Where there is memory to write to, nothing waits for a disk. */
	snprintf(w->fix.dir, sizeof(w->fix.dir), "%s/cairn-unit-XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(w->fix.dir));
	to = open(w->fix.dir, O_RDONLY | O_DIRECTORY);
	copy_tree(from, to);
	close(from);
	close(to);
	return w;
}

static void world_free(struct world *w)
{
	struct cairn_err err = {0};

	pool_closep(&w->fix.pool);
	assert_ok(pool_destroy(w->fix.dir, &err), &err);
	assert_true(rmdir(w->fix.dir) == 0 || access(w->fix.dir, F_OK) != 0);
	free(w);
}

static int run_sql(struct world *w, const char *sql, const struct stored *at, const void *value,
		   int len)
{
	char path[128];
	sqlite3 *db;
	sqlite3_stmt *stmt;
	int changes;

	snprintf(path, sizeof(path), "%s/catalogue.db", w->fix.dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "PRAGMA synchronous=OFF", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_bind_blob(stmt, 1, at->key, at->key_len, SQLITE_STATIC),
			 SQLITE_OK);
	if (value)
		assert_int_equal(sqlite3_bind_blob(stmt, 2, value, len, SQLITE_STATIC), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
	changes = sqlite3_changes(db);
	sqlite3_finalize(stmt);
	sqlite3_close(db);
	return changes;
}

static void store_raw(struct world *w, const struct stored *at, const void *value, int len)
{
	assert_int_equal(run_sql(w, "UPDATE kv SET v=?2 WHERE k=?1", at, value, len), 1);
}

/* With a checksum that fits. */
static void store_sealed(struct world *w, const struct stored *at, const void *value, size_t len)
{
	cairn_cleanup(pool_catalogue_closep) struct catalogue *cat = NULL;
	cairn_cleanup(pool_catalogue_batch_freep) struct catalogue_batch *batch = NULL;
	struct cairn_err err = {0};

	assert_ok(pool_catalogue_open(w->fix.dir, true, &cat, &err), &err);
	assert_ok(pool_catalogue_batch_new(cat, &batch, &err), &err);
	pool_catalogue_put(batch, (struct catalogue_bytes){at->key, (size_t)at->key_len},
			   (struct catalogue_bytes){value, len});
	assert_ok(pool_catalogue_commit(batch, CATALOGUE_ORDERED, &err), &err);
}

static void load_keys(void)
{
	char path[128];
	sqlite3 *db;
	sqlite3_stmt *stmt;

	snprintf(path, sizeof(path), "%s/catalogue.db", template.fix.dir);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT k,v FROM kv ORDER BY k", -1, &stmt, NULL),
			 SQLITE_OK);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		struct stored *s = &keys[n_keys++];

		assert_true(n_keys <= KEYS_MAX);
		s->key_len = sqlite3_column_bytes(stmt, 0);
		memcpy(s->key, sqlite3_column_blob(stmt, 0), (size_t)s->key_len);
		s->value_len = sqlite3_column_bytes(stmt, 1);
		memcpy(s->value, sqlite3_column_blob(stmt, 1), (size_t)s->value_len);
	}
	sqlite3_finalize(stmt);
	sqlite3_close(db);
}

/* ---- what must hold ------------------------------------------------------ */

static void fail_case(const char *what, const char *id)
{
	fail_msg("%s: %s %s", case_text, what, id);
}

static void check_bytes(const struct item *item, const uint8_t *data)
{
	for (unsigned i = 0; i < item->n_blocks; i++)
		for (unsigned j = 0; j < BLK; j++)
			if (data[i * BLK + j] != item->blocks[i])
				fail_case("has other bytes:", item->id);
}

static bool read_item(struct world *w, const struct item *item, uint8_t *data)
{
	cairn_cleanup(pool_store_reader_freep) struct store_reader *reader = NULL;
	cairn_auto_free char *path = NULL;
	cairn_auto_fd int fd = -1;
	size_t n = 0;

	memset(data, 0, BLOCKS * BLK);
	if (item->is_volume) {
		if (pool_volume_path(w->fix.pool, item->id, &path, NULL) != 0)
			return false;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		return fd >= 0 &&
		       pread(fd, data, BLOCKS * BLK, 0) == (ssize_t)(item->n_blocks * BLK);
	}
	return pool_snapshot_reader(w->fix.pool, item->id, &reader, NULL) == 0 &&
	       pool_store_reader_read(reader, 0, data, BLOCKS * BLK, &n, NULL) == 0 &&
	       n == item->n_blocks * BLK;
}

/* Everything that lived can be read. */
static void check_readable(struct world *w)
{
	static uint8_t data[BLOCKS * BLK];

	for (size_t i = 0; i < w->n; i++) {
		if (!w->items[i].live)
			continue;
		if (!read_item(w, &w->items[i], data))
			fail_case("can not be read:", w->items[i].id);
		check_bytes(&w->items[i], data);
	}
}

/* 1: answered, and right; 0: refused. */
static int check_delta(struct world *w, const struct item *base, const struct item *target)
{
	cairn_cleanup(pool_delta_freep) struct pool_delta *delta = NULL;
	struct pool_delta_spec spec = {.base = base->id, .target = target->id};
	bool changed[BLOCKS] = {false};
	struct block_extent extents[4];
	size_t n = 1;

	if (pool_delta_open(w->fix.pool, &spec, &delta, NULL) != 0)
		return 0;
	while (n > 0) {
		if (pool_delta_next(delta, extents, ARRAY_LEN(extents), &n, NULL) != 0)
			return 0;
		for (size_t i = 0; i < n; i++)
			for (uint64_t at = extents[i].offset; at < block_extent_end(&extents[i]);
			     at += BLK) {
				changed[at / BLK] = true;
				if (extents[i].zero && target->blocks[at / BLK] != 0)
					fail_case("is not zero:", target->id);
			}
	}
	for (unsigned i = 0; i < target->n_blocks; i++)
		if (!changed[i] && base->blocks[i] != target->blocks[i])
			fail_case("a changed block is missed:", target->id);
	return 1;
}

static unsigned check_deltas(struct world *w)
{
	unsigned answered = 0;

	for (size_t i = 0; i < w->n; i++)
		for (size_t j = 0; j < w->n; j++)
			if (!w->items[i].is_volume && !w->items[j].is_volume && i != j &&
			    w->items[j].live)
				answered += (unsigned)check_delta(w, &w->items[i], &w->items[j]);
	return answered;
}

static unsigned count_dir(struct world *w, const char *kind)
{
	char path[128];
	DIR *dir;
	struct dirent *entry;
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/%s", w->fix.dir, kind);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

static void report_fault(void *arg, enum pool_fault_state state, const char *line)
{
	char *text = arg;

	if (getenv("CAIRN_TEST_FAULTS"))
		print_message("%s: %d %s\n", case_text, (int)state, line);
	snprintf(text, 512, "%s", line);
}

static struct pool_check_result run_check(struct world *w, bool repair, char *text)
{
	struct pool_check_spec spec = {.repair = repair, .fault = report_fault, .arg = text};
	struct pool_check_result result;
	struct cairn_err err = {0};
	int rc = pool_check(w->fix.pool, &spec, &result, &err);

	if (rc)
		fail_case("check failed:", err.msg);
	return result;
}

static int ignore_volume(void *arg, const struct pool_volume *volume, struct cairn_err *err)
{
	(void)arg;
	(void)volume;
	(void)err;
	return 0;
}

static int ignore_snapshot(void *arg, const struct pool_snapshot *snapshot, struct cairn_err *err)
{
	(void)arg;
	(void)snapshot;
	(void)err;
	return 0;
}

/* Every command, after the repair. */
static void use_pool(struct world *w, bool with_cuts)
{
	struct pool_snapshot_list_spec list = {.with_deleted = true};
	struct cairn_err err = {0};
	struct pool_info info;
	size_t n = w->n;
	size_t merged;

	if (pool_info_get(w->fix.pool, &info, &err) ||
	    pool_volume_list(w->fix.pool, NULL, ignore_volume, NULL, &err) ||
	    pool_snapshot_list(w->fix.pool, &list, ignore_snapshot, NULL, &err))
		fail_case("listing failed:", err.msg);
	for (size_t i = 0; i < n; i++) {
		struct item *item = &w->items[i];

		if (with_cuts && item->is_volume && item->live) {
			write_block(w, item, 3, 'N');
			cut(w, item, "new");
		}
	}
	check_deltas(w);
	for (size_t i = 0; i < n; i++)
		if (!w->items[i].is_volume && w->items[i].live) {
			delete_snapshot(w, &w->items[i]);
			break;
		}
	check_deltas(w);
	if (pool_expire(w->fix.pool, SIZE_MAX, &merged, &err))
		fail_case("gc failed:", err.msg);
	check_readable(w);
}

static void delete_everything(struct world *w)
{
	struct cairn_err err = {0};

	for (size_t i = 0; i < w->n; i++)
		if (w->items[i].is_volume && w->items[i].live &&
		    pool_volume_delete(w->fix.pool, w->items[i].id, POOL_DELETE_SNAPSHOTS, &err))
			fail_case("delete failed:", err.msg);
}

static void open_world(struct world *w)
{
	struct pool_open_spec spec = {.dir = w->fix.dir};
	struct cairn_err err = {0};

	if (pool_open(&spec, &w->fix.pool, &err))
		fail_case("open failed:", err.msg);
}

/* `found`: the check must find the damage. Where the repair leaves the fault, what
 * could be read must still be readable and no more. */
static void judge(struct world *w, bool found, bool with_cuts)
{
	char text[512] = "";
	unsigned volumes;
	unsigned snapshots;
	unsigned sets;
	struct pool_check_result result;

	open_world(w);
	volumes = count_dir(w, "volumes");
	snapshots = count_dir(w, "snapshots");
	sets = count_dir(w, "sets");
	result = run_check(w, false, text);
	if (found && result.found == 0)
		fail_case("damage is not found", "");
	run_check(w, true, text);
	if (count_dir(w, "volumes") != volumes || count_dir(w, "snapshots") != snapshots ||
	    count_dir(w, "sets") < sets)
		fail_case("something was removed", "");
	text[0] = '\0';
	result = run_check(w, false, text);
	if (result.found != 0)
		fail_case("a fault stays:", text);
	check_readable(w);
	check_deltas(w);
	use_pool(w, with_cuts);
	text[0] = '\0';
	if (run_check(w, false, text).found != 0)
		fail_case("a fault comes:", text);
	delete_everything(w);
	if (run_check(w, false, text).found != 0)
		fail_case("a fault comes at the end:", text);
}

/* ---- the damages --------------------------------------------------------- */

static void flip_checksum(struct world *w, const struct stored *at)
{
	uint8_t value[sizeof(at->value)];

	memcpy(value, at->value, sizeof(value));
	value[3] ^= 0x10;
	store_raw(w, at, value, at->value_len);
}

/* The version byte of a record; of an index, its value or once more the sum. */
static void flip_first(struct world *w, const struct stored *at)
{
	uint8_t value[sizeof(at->value)];

	memcpy(value, at->value, sizeof(value));
	value[at->value_len > (int)SUM ? SUM : 0] ^= 0x02;
	store_raw(w, at, value, at->value_len);
}

static void flip_middle(struct world *w, const struct stored *at)
{
	uint8_t value[sizeof(at->value)];

	memcpy(value, at->value, sizeof(value));
	value[at->value_len > (int)SUM ? (at->value_len + (int)SUM) / 2 : 5] ^= 0x40;
	store_raw(w, at, value, at->value_len);
}

static void truncate_value(struct world *w, const struct stored *at)
{
	store_raw(w, at, at->value, at->value_len - 1);
}

static void empty_value(struct world *w, const struct stored *at)
{
	store_raw(w, at, "", 0);
}

static void remove_key(struct world *w, const struct stored *at)
{
	assert_int_equal(run_sql(w, "DELETE FROM kv WHERE k=?1", at, NULL, 0), 1);
}

static void seal_truncated(struct world *w, const struct stored *at)
{
	int len = at->value_len - (int)SUM;

	store_sealed(w, at, at->value + SUM, len > 0 ? (size_t)len - 1 : 0);
}

static void seal_empty(struct world *w, const struct stored *at)
{
	store_sealed(w, at, "", 0);
}

static void seal_longer(struct world *w, const struct stored *at)
{
	uint8_t value[sizeof(at->value) + 1];
	size_t len = (size_t)at->value_len - SUM;

	memcpy(value, at->value + SUM, len);
	value[len] = 'x';
	store_sealed(w, at, value, len + 1);
}

/* The value of another key of its kind. */
static void seal_duplicate(struct world *w, const struct stored *at)
{
	for (size_t i = 0; i < n_keys; i++)
		if (keys[i].key[0] == at->key[0] && &keys[i] != at) {
			store_sealed(w, at, keys[i].value + SUM, (size_t)keys[i].value_len - SUM);
			return;
		}
}

struct damage {
	const char *name;
	void (*harm)(struct world *w, const struct stored *at);
	const char *found_in; /* kinds in which it must be found */
};

/* An index entry of numbers has no value, and a note may say anything. A removed
 * leftover or note is as if it had never been, and so is the name of a deleted
 * snapshot. */
static const struct damage damages[] = {
	{"checksum", flip_checksum, "nvwslmchtix"},    {"first byte", flip_first, "nvwslmchtix"},
	{"middle byte", flip_middle, "nvwslmchtix"},   {"truncated", truncate_value, "nvwslmchtix"},
	{"empty", empty_value, "nvwslmchtix"},         {"removed", remove_key, "nvwslcht"},
	{"sealed truncated", seal_truncated, "nvwsm"}, {"sealed empty", seal_empty, "nvwsm"},
	{"sealed longer", seal_longer, "nvwsm"},       {"sealed duplicate", seal_duplicate, "vws"},
};

static bool is_sampled(size_t k)
{
	unsigned before = 0;

	for (size_t i = 0; i < k; i++)
		before += keys[i].key[0] == keys[k].key[0];
	return all_keys || before < KEYS_A_RUN;
}

static void damaged_values_lose_nothing(void **state)
{
	(void)state;
	for (size_t k = 0; k < n_keys; k++)
		for (size_t d = 0; is_sampled(k) && d < ARRAY_LEN(damages); d++) {
			struct world *w = world_new();
			static char text[600];

			snprintf(text, sizeof(text), "%.*s, %s", keys[k].key_len,
				 (const char *)keys[k].key, damages[d].name);
			case_text = text;
			damages[d].harm(w, &keys[k]);
			/* A cut of this back end takes its time. */
			judge(w, strchr(damages[d].found_in, keys[k].key[0]) != NULL,
			      all_keys || strchr("nvsh", keys[k].key[0]));
			world_free(w);
		}
}

/* A newer version is left alone: put back, everything is as it was. */
static void records_of_a_newer_version_are_left_alone(void **state)
{
	(void)state;
	for (size_t k = 0; k < n_keys; k++) {
		struct world *w;
		uint8_t value[sizeof(keys[k].value)];
		char text[512] = "";
		static char name[600];
		unsigned answered;

		if (!strchr("vs", keys[k].key[0]) || !is_sampled(k))
			continue;
		w = world_new();
		snprintf(name, sizeof(name), "%.*s, newer", keys[k].key_len,
			 (const char *)keys[k].key);
		case_text = name;
		memcpy(value, keys[k].value + SUM, sizeof(value) - SUM);
		value[0] = 77;
		store_sealed(w, &keys[k], value, (size_t)keys[k].value_len - SUM);
		open_world(w);
		if (run_check(w, false, text).found == 0)
			fail_case("is not reported", "");
		run_check(w, true, text);
		check_deltas(w);
		(void)pool_expire(w->fix.pool, SIZE_MAX, &(size_t){0}, NULL);
		pool_closep(&w->fix.pool);
		w->fix.pool = NULL;
		store_sealed(w, &keys[k], keys[k].value + SUM, (size_t)keys[k].value_len - SUM);
		open_world(w);
		text[0] = '\0';
		if (run_check(w, false, text).found != 0)
			fail_case("was touched:", text);
		check_readable(w);
		answered = check_deltas(w);
		assert_true(answered > 10);
		world_free(w);
	}
}

/* Records with a good checksum and a wrong field. */
static bool change_volume(struct record_volume *volume, unsigned field)
{
	switch (field) {
	case 0:
		volume->volume ^= 1;
		return true;
	case 1:
		volume->name[0] = 'X';
		return true;
	case 2:
		volume->head = 4711;
		return true;
	case 3:
		volume->head = 0;
		return true;
	case 4:
		volume->head = volume->head > 1 ? volume->head - 1 : 3;
		return true;
	case 5:
		volume->origin = 4711;
		return true;
	case 6:
		volume->deleted = !volume->deleted;
		return true;
	case 7:
		volume->retention_ms = 5;
		return true;
	default:
		return false;
	}
}

static bool change_snapshot(struct record_snapshot *snapshot, unsigned field)
{
	switch (field) {
	case 0:
		snapshot->number ^= 1;
		return true;
	case 1:
		snapshot->volume ^= 1;
		return true;
	case 2:
		snapshot->name[0] = 'X';
		return true;
	case 3:
		snapshot->parent = 0;
		return true;
	case 4:
		snapshot->parent = 4711;
		return true;
	case 5:
		snapshot->parent = snapshot->parent > 1 ? snapshot->parent - 1 : 2;
		return true;
	case 6:
		snapshot->parent_volume ^= 1;
		return true;
	case 7:
		snapshot->deleted = !snapshot->deleted;
		return true;
	case 8:
		snapshot->has_data = !snapshot->has_data;
		return true;
	case 9:
		snapshot->expires_ns ^= 1;
		return true;
	case 10:
		snapshot->set = POOL_SET_NONE;
		return true;
	case 11:
		snapshot->set = POOL_SET_PENDING;
		return true;
	case 12:
		snapshot->set = POOL_SET_READY;
		return true;
	case 13:
		snapshot->set = POOL_SET_LOST;
		return true;
	case 14:
		snapshot->set_generation++;
		return true;
	case 15:
		snapshot->set_extents++;
		return true;
	case 16:
		snapshot->set_changed_bytes ^= 4096;
		return true;
	case 17:
		snapshot->set_zero_bytes ^= 4096;
		return true;
	default:
		return false;
	}
}

/* *ret_lies: it says something else than before. */
static bool store_changed(struct world *w, const struct stored *at, unsigned field, bool *ret_lies)
{
	cairn_auto_buf struct cairn_buf out = CAIRN_BUF_INIT(4096);
	struct record_volume volume;
	struct record_snapshot snapshot;
	bool more;

	if (at->key[0] == 'v') {
		assert_int_equal(pool_record_volume_decode(at->value + SUM,
							   (size_t)at->value_len - SUM, &volume,
							   NULL),
				 0);
		more = change_volume(&volume, field);
		pool_record_volume_encode(&volume, &out);
	} else {
		assert_int_equal(pool_record_snapshot_decode(at->value + SUM,
							     (size_t)at->value_len - SUM, &snapshot,
							     NULL),
				 0);
		more = change_snapshot(&snapshot, field);
		pool_record_snapshot_encode(&snapshot, &out);
	}
	*ret_lies = out.len != (size_t)at->value_len - SUM ||
		    memcmp(out.data, at->value + SUM, out.len) != 0;
	store_sealed(w, at, out.data, out.len);
	return more;
}

/* Lies that break nothing: settings, what an object without a parent or a set says of
 * it, and the name of a deleted volume. A wrong lineage is not among them. */
static bool means_nothing(const struct stored *at, unsigned field)
{
	size_t len = (size_t)at->value_len - SUM;
	struct record_volume volume;
	struct record_snapshot snapshot;

	if (at->key[0] == 'v') {
		assert_int_equal(pool_record_volume_decode(at->value + SUM, len, &volume, NULL), 0);
		return field == 5 || field == 7 || (field == 1 && volume.deleted);
	}
	assert_int_equal(pool_record_snapshot_decode(at->value + SUM, len, &snapshot, NULL), 0);
	return (field == 6 && !snapshot.parent) || (field == 9 && !snapshot.deleted) ||
	       (field >= 14 && snapshot.set != POOL_SET_READY);
}

/* A record that lies with a good checksum may hide what it is of, but nothing is
 * removed, no delta is wrong after the repair, and nothing is left to repair. */
static void records_that_lie_remove_nothing(void **state)
{
	(void)state;
	for (size_t k = 0; k < n_keys; k++) {
		bool more = strchr("vs", keys[k].key[0]) && is_sampled(k);

		for (unsigned field = 0; more; field++) {
			struct world *w = world_new();
			char text[512] = "";
			static char name[600];
			bool lies = false;

			snprintf(name, sizeof(name), "%.*s, field %u", keys[k].key_len,
				 (const char *)keys[k].key, field);
			case_text = name;
			more = store_changed(w, &keys[k], field, &lies);
			open_world(w);
			if (run_check(w, false, text).found == 0 && lies &&
			    !means_nothing(&keys[k], field))
				fail_case("a lie is not found", "");
			run_check(w, true, text);
			text[0] = '\0';
			if (run_check(w, false, text).found != 0)
				fail_case("a fault stays:", text);
			check_deltas(w);
			for (size_t i = 0; i < w->n; i++) {
				static uint8_t data[BLOCKS * BLK];
				char restored[300];

				if (!w->items[i].live || read_item(w, &w->items[i], data))
					continue;
				if (pool_quarantine_restore(w->fix.pool, w->items[i].id, restored,
							    sizeof(restored), NULL) ||
				    !read_item(w, &w->items[i], data))
					fail_case("can not be had back:", w->items[i].id);
				check_bytes(&w->items[i], data);
			}
			world_free(w);
		}
	}
}

/* ---- set files and the pool's own file ----------------------------------- */

static void harm_file(const char *path, unsigned how)
{
	cairn_auto_fd int fd = open(path, O_RDWR | O_CLOEXEC);
	uint8_t byte;
	struct stat st;
	off_t at;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	at = how == 0 ? 0 : how == 1 ? 9 : how == 2 ? st.st_size / 2 : st.st_size - 1;
	if (how < 4) {
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= 0x04;
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	} else if (how == 4) {
		assert_int_equal(ftruncate(fd, st.st_size - 1), 0);
	} else if (how == 5) {
		assert_int_equal(ftruncate(fd, 0), 0);
	} else {
		assert_int_equal(unlink(path), 0);
	}
}

#define FILE_HARMS 7U

static void damaged_set_files_lose_nothing(void **state)
{
	char names[32][64];
	size_t n = 0;
	char path[192];
	DIR *dir;
	struct dirent *entry;

	(void)state;
	snprintf(path, sizeof(path), "%s/sets", template.fix.dir);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)) && n < ARRAY_LEN(names))
		if (entry->d_name[0] != '.')
			snprintf(names[n++], sizeof(names[0]), "%.60s", entry->d_name);
	closedir(dir);
	assert_true(n >= 5);
	for (size_t i = 0; i < n && (all_keys || i < 3); i++)
		for (unsigned how = 0; how < FILE_HARMS; how++) {
			struct world *w = world_new();
			static char text[128];

			snprintf(text, sizeof(text), "%s, harm %u", names[i], how);
			case_text = text;
			snprintf(path, sizeof(path), "%s/sets/%s", w->fix.dir, names[i]);
			harm_file(path, how);
			judge(w, true, false);
			world_free(w);
		}
}

/* Another set's file in its place: it is whole, and not the one that is meant. */
static void a_set_of_another_is_found(void **state)
{
	struct world *w = world_new();
	struct pool_snapshot clone;
	struct pool_snapshot line;
	char from[192];
	char to[192];

	(void)state;
	case_text = "another's set";
	open_world(w);
	assert_int_equal(pool_snapshot_get(w->fix.pool, "line@s2", &line, NULL), 0);
	assert_int_equal(pool_snapshot_get(w->fix.pool, "clone@k1", &clone, NULL), 0);
	pool_closep(&w->fix.pool);
	w->fix.pool = NULL;
	snprintf(from, sizeof(from), "%s/sets/set-%s-1", w->fix.dir, strrchr(line.id, '-') + 1);
	snprintf(to, sizeof(to), "%s/sets/set-%s-1", w->fix.dir, strrchr(clone.id, '-') + 1);
	assert_int_equal(rename(from, to), 0);
	judge(w, true, true);
	world_free(w);
}

static void a_damaged_marker_opens_nothing_and_removes_nothing(void **state)
{
	(void)state;
	for (unsigned how = 0; how < FILE_HARMS; how++) {
		struct world *w = world_new();
		struct pool_open_spec spec = {.dir = w->fix.dir};
		char path[192];
		char saved[4096];
		ssize_t n;
		int fd;

		case_text = "marker";
		snprintf(path, sizeof(path), "%s/cairn.pool", w->fix.dir);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = read(fd, saved, sizeof(saved));
		close(fd);
		harm_file(path, how);
		assert_int_not_equal(pool_open(&spec, &w->fix.pool, NULL), 0);
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		assert_int_equal(write(fd, saved, (size_t)n), n);
		close(fd);
		judge(w, false, false);
		world_free(w);
	}
}

/* ---- quarantine ---------------------------------------------------------- */

static int count_item(void *arg, const struct pool_quarantined *item, struct cairn_err *err)
{
	(void)item;
	(void)err;
	(*(size_t *)arg)++;
	return 0;
}

static size_t in_quarantine(struct world *w)
{
	size_t n = 0;

	assert_int_equal(pool_quarantine_list(w->fix.pool, count_item, &n, NULL), 0);
	return n;
}

/* All that speaks of a volume and its snapshots is gone from the catalogue. */
static void forget_all(struct world *w)
{
	for (size_t k = 0; k < n_keys; k++)
		if (strchr("vwslmcht", keys[k].key[0]))
			remove_key(w, &keys[k]);
}

static void what_was_moved_aside_comes_back_with_its_bytes(void **state)
{
	static uint8_t data[BLOCKS * BLK];
	struct world *w = world_new();
	char text[512] = "";

	(void)state;
	case_text = "an empty catalogue";
	forget_all(w);
	open_world(w);
	run_check(w, true, text);
	for (size_t i = 0; i < w->n; i++) {
		const struct item *item = &w->items[i];
		char restored[300];
		struct cairn_err err = {0};

		if (!item->live)
			continue;
		assert_false(read_item(w, item, data));
		assert_ok(pool_quarantine_restore(w->fix.pool, item->id, restored, sizeof(restored),
						  &err),
			  &err);
	}
	check_readable(w);
	check_deltas(w);
	use_pool(w, true);
	if (run_check(w, false, text).found != 0)
		fail_case("a fault comes:", text);
	assert_true(in_quarantine(w) > 0);
	assert_int_equal(pool_quarantine_drop(w->fix.pool, "set-2-1", NULL), 0);
	assert_int_equal(pool_quarantine_drop(w->fix.pool, "set-2-1", NULL), CAIRN_NOT_FOUND);
	world_free(w);
}

static int build_template(void **state)
{
	void *fix = NULL;

	(void)state;
	if (poolfix_setup(&fix) != 0)
		return -1;
	template.fix = *(struct poolfix *)fix;
	free(fix);
	build(&template);
	pool_closep(&template.fix.pool);
	template.fix.pool = NULL;
	load_keys();
	return 0;
}

static int destroy_template(void **state)
{
	(void)state;
	if (pool_destroy(template.fix.dir, NULL) != 0)
		return -1;
	rmdir(template.fix.dir);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged_values_lose_nothing),
		cmocka_unit_test(records_of_a_newer_version_are_left_alone),
		cmocka_unit_test(records_that_lie_remove_nothing),
		cmocka_unit_test(damaged_set_files_lose_nothing),
		cmocka_unit_test(a_set_of_another_is_found),
		cmocka_unit_test(a_damaged_marker_opens_nothing_and_removes_nothing),
		cmocka_unit_test(what_was_moved_aside_comes_back_with_its_bytes),
	};

	all_keys = argc > 1 && strcmp(argv[1], "--all") == 0;
	return cmocka_run_group_tests_name("pool/records", tests, build_template, destroy_template);
}
