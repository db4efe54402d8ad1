/* SPDX-License-Identifier: Apache-2.0 */

/* Increments of volumes that no disk here could hold.
 *
 *   bench-backup-size make REPOSITORY BYTES
 *       A repository with one backup of a volume of so many bytes, all of them data that does
 *       not compress. Lists, index and pack names are real and made by the planner that
 *       backups use; the packs of data are sparse files of the right length, and the ids of
 *       chunks are made up: nothing can be restored of it.
 *   bench-backup-size increment REPOSITORY BYTES NUMBER scattered|clustered|none
 *       The backup with that number, from 1 on, on top of the one before: 2000 writes of
 *       4 KiB, anywhere or in 64 places of 1 MiB. Prints a line of JSON.
 *
 * A block's bytes are a function of where it is and of the number. The password is "bench". */

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backup/changed_bitmap.h"
#include "backup/create.h"
#include "backup/plan.h"
#include "backup/segment.h"
#include "backup/segmented.h"
#include "backup/source.h"
#include "backup/write_snapshot.h"
#include "backup/zeros.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/num.h"
#include "block/extent.h"
#include "pool/store/store.h"
#include "repo/index.h"
#include "repo/pack_header.h"
#include "repo/packer.h"
#include "repo/repo_impl.h"

#define BLOCK       4096U
#define WRITES      2000U
#define PLACES      64U
#define PLACE_BYTES (1U << 20)
#define FLUSH_BLOBS 90000U

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}

static struct repo_id id_of(uint64_t kind, uint64_t number)
{
	struct repo_id id;

	for (size_t i = 0; i < sizeof(id.bytes) / 8; i++) {
		uint64_t word = mix(mix(number * 8 + i + 1) + kind);

		memcpy(id.bytes + 8 * i, &word, sizeof(word));
	}
	return id;
}

/* ---- the volume -------------------------------------------------------------- */

enum workload { SCATTERED, CLUSTERED, NONE };

struct volume {
	struct backup_source base;
	uint64_t number;
	enum workload workload;
	char name[32], parent[32];
};

struct reader {
	struct store_reader base;
	uint64_t number;
};

static int read_bytes(struct store_reader *base, uint64_t offset, void *buf, size_t n,
		      size_t *ret_n, struct cairn_err *err)
{
	uint64_t number = ((struct reader *)base)->number;
	uint64_t *words = buf;

	(void)err;
	for (size_t i = 0; i < n / sizeof(*words); i++)
		words[i] = mix((offset / sizeof(*words) + i) * 31 + number);
	*ret_n = n;
	return 0;
}

static void free_reader(struct store_reader *reader)
{
	free(reader);
}

static const struct store_reader_ops reader_ops = {.read = read_bytes, .free = free_reader};

static int open_reader(struct backup_source *base, struct store_reader **ret, struct cairn_err *err)
{
	struct reader *reader = cairn_calloc(1, sizeof(*reader));

	if (!reader)
		return cairn_err_nomem(err, "a reader");
	reader->base.ops = &reader_ops;
	reader->number = ((struct volume *)base)->number;
	*ret = &reader->base;
	return 0;
}

static uint64_t place(const struct volume *volume, uint64_t i)
{
	uint64_t random = mix(volume->number << 32 | i);

	if (volume->workload == SCATTERED)
		return random % (volume->base.size / BLOCK) * BLOCK;
	/* The same places in each round. */
	return mix(random % PLACES) % (volume->base.size / PLACE_BYTES) * PLACE_BYTES +
	       random / PLACES % (PLACE_BYTES / BLOCK) * BLOCK;
}

static int changed(struct backup_source *base, const char *since, struct block_sink sink,
		   struct cairn_err *err)
{
	const struct volume *volume = (struct volume *)base;
	int rc = 0;

	(void)since;
	for (uint64_t i = 0; i < WRITES && volume->workload != NONE && !rc; i++)
		rc = sink.emit(sink.arg,
			       &(struct block_extent){.offset = place(volume, i), .length = BLOCK},
			       err);
	return rc;
}

static int lineage(struct backup_source *base,
		   int (*fn)(void *arg, const char *snapshot_id, uint64_t created_ns,
			     struct cairn_err *err),
		   void *arg, struct cairn_err *err)
{
	return fn(arg, ((struct volume *)base)->parent, 0, err);
}

static void close_nothing(struct backup_source *source)
{
	(void)source;
}

static const struct backup_source_ops source_ops = {.name = "bench",
						    .close = close_nothing,
						    .reader_open = open_reader,
						    .changed = changed,
						    .lineage = lineage};

static void volume_init(struct volume *volume, uint64_t size, uint64_t number)
{
	*volume = (struct volume){.number = number};
	snprintf(volume->name, sizeof(volume->name), "s%" PRIu64, number);
	snprintf(volume->parent, sizeof(volume->parent), "s%" PRIu64, number - 1);
	volume->base = (struct backup_source){.ops = &source_ops,
					      .volume_id = "bench",
					      .volume_name = "bench",
					      .snapshot_id = volume->name,
					      .snapshot_name = volume->name,
					      .size = size,
					      .created_ns = cairn_now_ns(),
					      .granularity = BLOCK};
}

/* ---- a repository with one backup ------------------------------------------- */

struct making {
	struct repo *repo;
	const char *path;
	uint64_t size;
	struct zeros *zeros;
	struct changed_bitmap *marks;
	uint64_t chunks, packs;
	uint32_t pack; /* the index's number of the one that is being filled */
	uint64_t unflushed;
	struct repo_pack_blob *blobs; /* of the pack that is being filled */
	size_t n, room;
	uint64_t bytes;
};

static int end_pack(struct making *m, struct cairn_err *err)
{
	struct repo_id id = id_of(1, m->packs);
	char hex[REPO_ID_TEXT_MAX];
	cairn_auto_free char *path =
		cairn_printf("%s/data/%.2s/%s", m->path, repo_id_format(&id, hex), hex);
	cairn_auto_fd int fd = -1;
	int rc;

	if (m->n == 0)
		return 0;
	fd = path ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
	if (fd < 0 || ftruncate(fd, (off_t)(m->bytes + repo_pack_header_size(m->blobs, m->n))) < 0)
		return cairn_err_set(err, CAIRN_INTERNAL, "cannot make a pack");
	rc = repo_packer_adopt(m->repo->packer, m->pack, &id, m->blobs, m->n, err);
	m->packs++;
	m->unflushed += m->n;
	m->n = 0;
	m->bytes = 0;
	if (!rc && m->unflushed >= FLUSH_BLOBS) {
		m->unflushed = 0;
		rc = repo_flush(m->repo, err);
	}
	return rc;
}

static int add_blob(struct making *m, const struct repo_pack_blob *blob, struct cairn_err *err)
{
	struct repo_id id = id_of(1, m->packs);
	int rc = 0;

	if (m->n == 0)
		rc = repo_index_pack(m->repo->index, &id, REPO_PACK_STORED, &m->pack, NULL, err);
	if (!rc)
		rc = repo_index_add(m->repo->index, m->pack, blob, true, err);
	m->blobs[m->n++] = *blob;
	m->bytes += blob->length;
	return rc;
}

/* Gives ids to chunks that were to be read, and puts them into packs. */
static int store_chunks(struct making *m, struct chunk_map *map, struct cairn_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < map->n && !rc; i++) {
		struct chunk *chunk = &map->at[i];
		struct repo_pack_blob blob = {.id = id_of(2, m->chunks++),
					      .offset = (uint32_t)m->bytes,
					      .length = chunk->length + REPO_SEAL,
					      .type = REPO_BLOB_DATA};

		if (m->n == m->room) {
			m->room = m->room ? 2 * m->room : 4096;
			m->blobs = cairn_realloc_array(m->blobs, m->room, sizeof(*m->blobs));
			if (!m->blobs)
				return cairn_err_nomem(err, "blobs");
		}
		rc = add_blob(m, &blob, err);
		memcpy(chunk->id, blob.id.bytes, sizeof(chunk->id));
		chunk->kind = CHUNK_KEPT;
		if (!rc && m->bytes >= m->repo->pack_size)
			rc = end_pack(m, err);
	}
	return rc;
}

static int make_segment(struct making *m, uint64_t number, uint64_t base, struct repo_id *ret,
			struct cairn_err *err)
{
	cairn_cleanup(backup_chunk_map_done) struct chunk_map map = {0};
	struct plan_segment_spec spec = {.mode = PLAN_ALLOCATED,
					 .marks = m->marks,
					 .offset = number * SEGMENT_BYTES,
					 .length = SEGMENT_BYTES,
					 .base = base};
	struct plan_tally tally = {0};
	int rc = backup_plan_segment(&spec, &map, &tally, err);

	if (!rc)
		rc = store_chunks(m, &map, err);
	return rc ? rc : backup_segment_save(m->repo, m->zeros, number, map.at, map.n, ret, err);
}

static int make_segments(struct making *m, struct segmented_result *ret, uint64_t base,
			 struct cairn_err *err)
{
	uint64_t count = backup_segments_count(m->size, SEGMENT_BYTES);
	size_t n_groups = (count + SEGMENT_GROUP - 1) / SEGMENT_GROUP;
	cairn_auto_free struct repo_id *groups = cairn_calloc(n_groups, sizeof(*groups));
	struct repo_id leaves[SEGMENT_GROUP];
	int rc = groups ? 0 : cairn_err_nomem(err, "groups");

	for (size_t g = 0; g < n_groups && !rc; g++) {
		size_t n = backup_segments_in_group(count, g);

		for (size_t i = 0; i < n && !rc; i++)
			rc = make_segment(m, g * SEGMENT_GROUP + i, base, &leaves[i], err);
		if (!rc)
			rc = backup_segment_save_group(m->repo, leaves, n, &groups[g], err);
	}
	if (!rc)
		rc = end_pack(m, err);
	ret->chunks = m->chunks;
	ret->data_bytes = m->size;
	return rc ? rc : backup_segment_save_groups(m->repo, groups, n_groups, &ret->top, err);
}

static int make_backup(struct making *m, struct cairn_err *err)
{
	struct backup_create_options options = {.version = "bench", .hostname = "bench"};
	struct backup_result result = {.mode = BACKUP_ALLOCATED, .size = m->size};
	struct segmented_result segmented = {0};
	struct plan plan = {0};
	struct volume volume;
	struct save_spec spec = {
		.options = &options, .plan = &plan, .zeros = m->zeros, .begun_ns = cairn_now_ns()};
	int rc;

	volume_init(&volume, m->size, 0);
	spec.source = &volume.base;
	if (m->size > PLAN_FILE_DATA) {
		plan.base = backup_plan_segment_base(m->size);
		spec.segmented = &segmented;
		spec.segment = SEGMENT_BYTES;
		rc = make_segments(m, &segmented, plan.base, err);
	} else {
		rc = backup_plan_make(
			&(struct plan_spec){.mode = PLAN_ALLOCATED, .marks = m->marks}, &plan, err);
		if (!rc)
			rc = store_chunks(m, &plan.map, err);
		if (!rc)
			rc = end_pack(m, err);
	}
	if (!rc)
		rc = backup_write_snapshot(m->repo, &spec, &result, err);
	backup_plan_done(&plan);
	return rc;
}

static struct repo_options options_for(const char *path)
{
	return (struct repo_options){.store = {.location = path},
				     .password = "bench",
				     .password_len = 5,
				     .lock = REPO_LOCK_SHARED,
				     .lock_early = true,
				     .cache_dir = getenv("CAIRN_BENCH_CACHE")};
}

static int make(const char *path, uint64_t size, struct cairn_err *err)
{
	cairn_cleanup(backup_zeros_freep) struct zeros *zeros = NULL;
	cairn_cleanup(backup_changed_bitmap_freep) struct changed_bitmap *marks = NULL;
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	struct repo_options options = options_for(path);
	struct making m = {.path = path, .size = size};
	int rc = repo_init(&options, &repo, err);

	if (!rc)
		rc = repo_load_index(repo, err);
	if (!rc)
		rc = backup_zeros_new(&zeros, err);
	if (!rc)
		rc = backup_changed_bitmap_new(size, &marks, err);
	if (rc)
		return rc;
	repo_expect(repo, size);
	backup_changed_bitmap_add(marks, &(struct block_extent){.length = size});
	m.repo = repo;
	m.zeros = zeros;
	m.marks = marks;
	rc = make_backup(&m, err);
	free(m.blobs);
	return rc;
}

/* ---- an increment ------------------------------------------------------------ */

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static int increment(const char *path, uint64_t size, uint64_t number, const char *workload,
		     struct cairn_err *err)
{
	struct repo_options options = options_for(path);
	struct backup_create_options how = {.version = "bench", .hostname = "bench"};
	struct backup_result result = {0};
	uint64_t begun = cairn_monotonic_ns(), requests;
	struct repo_stats stats = {0};
	struct repo *repo = NULL;
	struct volume volume;
	struct rusage usage;
	int rc = repo_open(&options, &repo, err);

	volume_init(&volume, size, number);
	volume.workload = strcmp(workload, "none") == 0        ? NONE
			  : strcmp(workload, "clustered") == 0 ? CLUSTERED
							       : SCATTERED;
	if (!rc)
		rc = backup_create(repo, &volume.base, &how, &result, err);
	if (rc) {
		repo_close(repo);
		return rc;
	}
	repo_get_stats(repo, &stats);
	requests = stats.requests + 1; /* the lock goes, too */
	repo_close(repo);
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"mode\":\"%s\",\"changed\":%" PRIu64 ",\"read\":%" PRIu64 ",\"stored\":%" PRIu64
	       ",\"chunks\":%" PRIu64 ",\"chunks_new\":%" PRIu64 ",\"requests\":%" PRIu64
	       ",\"cpu\":%.3f,\"wall\":%.3f,\"rss_kib\":%ld}\n",
	       backup_mode_name(result.mode), result.bytes_changed, result.bytes_read,
	       stats.bytes_stored, result.chunks, result.chunks_new, requests,
	       seconds(usage.ru_utime) + seconds(usage.ru_stime),
	       (double)(cairn_monotonic_ns() - begun) / 1e9, usage.ru_maxrss);
	return 0;
}

int main(int argc, char **argv)
{
	struct cairn_err err = {0};
	uint64_t size = 0, number = 0;
	int rc;

	if (argc == 4 && strcmp(argv[1], "make") == 0 && !cairn_parse_u64(argv[3], &size, NULL))
		rc = make(argv[2], size, &err);
	else if (argc == 6 && strcmp(argv[1], "increment") == 0 &&
		 !cairn_parse_u64(argv[3], &size, NULL) && !cairn_parse_u64(argv[4], &number, NULL))
		rc = increment(argv[2], size, number, argv[5], &err);
	else
		return 2;
	if (rc)
		fprintf(stderr, "bench-backup-size: %s\n", err.msg);
	return rc ? 1 : 0;
}
