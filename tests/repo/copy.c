/* SPDX-License-Identifier: Apache-2.0 */

/* repotool put and get: a file into the repository and out of it. */
#include "repotool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "repo/blob.h"
#include "repo/repo_snapshot.h"
#include "repo/tree.h"

#define THREADS_MAX 16

struct putting {
	struct repo *repo;
	int fd;
	uint64_t size, chunk;
	struct repo_id *ids;
	size_t n;
	atomic_size_t next;
	atomic_int rc;
	struct cairn_err err;
	pthread_mutex_t mutex; /* guards `err` */
};

static int put_chunk(struct putting *putting, size_t i, uint8_t *buf, struct cairn_err *err)
{
	uint64_t offset = i * putting->chunk;
	size_t n = putting->size - offset < putting->chunk ? (size_t)(putting->size - offset)
							   : (size_t)putting->chunk;

	if (cairn_pread_full(putting->fd, buf, n, offset) != (ssize_t)n)
		return cairn_err_sys(err, EIO, "read the file");
	return repo_blob_put(putting->repo, REPO_BLOB_DATA, buf, n, &putting->ids[i], NULL, err);
}

static void *put_chunks(void *arg)
{
	struct putting *putting = arg;
	cairn_auto_free uint8_t *buf = malloc(putting->chunk);
	size_t i;

	while (buf && putting->rc == 0 && (i = putting->next++) < putting->n) {
		struct cairn_err err = {0};
		int rc = put_chunk(putting, i, buf, &err);

		if (rc < 0) {
			pthread_mutex_lock(&putting->mutex);
			putting->err = err;
			pthread_mutex_unlock(&putting->mutex);
			putting->rc = rc;
		}
	}
	return NULL;
}

static int put_content(struct putting *putting, struct cairn_err *err)
{
	uint64_t want = tool_number("REPOTOOL_THREADS", 2);
	pthread_t threads[THREADS_MAX];
	size_t n = 0;

	while (n < want && n < THREADS_MAX &&
	       pthread_create(&threads[n], NULL, put_chunks, putting) == 0)
		n++;
	while (n > 0)
		pthread_join(threads[--n], NULL);
	if (putting->rc < 0)
		*err = putting->err;
	return putting->rc;
}

static struct repo_node node_of(const char *name, enum repo_node_type type, uint64_t inode)
{
	int64_t now = (int64_t)cairn_now_ns();

	return (struct repo_node){.name = name,
				  .type = type,
				  .mode = type == REPO_NODE_DIR ? 0755 : 0600,
				  .mtime_ns = now,
				  .atime_ns = now,
				  .ctime_ns = now,
				  .user = "root",
				  .group = "root",
				  .inode = inode,
				  .links = type == REPO_NODE_FILE};
}

static int write_file_tree(struct putting *putting, const char *name, struct repo_id *ret,
			   struct cairn_err *err)
{
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	struct repo_node node = node_of(name, REPO_NODE_FILE, 7);
	int rc = repo_tree_writer_new(putting->repo, &writer, err);

	node.size = putting->size;
	if (rc == 0)
		rc = repo_tree_writer_file_begin(writer, &node, err);
	if (rc == 0)
		rc = repo_tree_writer_content(writer, putting->ids, putting->n, err);
	if (rc == 0)
		rc = repo_tree_writer_file_end(writer, err);
	return rc < 0 ? rc : repo_tree_writer_finish(writer, ret, err);
}

static int write_dir_tree(struct repo *repo, const char *name, uint64_t inode, struct repo_id *tree,
			  struct cairn_err *err)
{
	cairn_cleanup(repo_tree_writer_freep) struct repo_tree_writer *writer = NULL;
	struct repo_node node = node_of(name, REPO_NODE_DIR, inode);
	int rc = repo_tree_writer_new(repo, &writer, err);

	node.subtree = *tree;
	if (rc == 0)
		rc = repo_tree_writer_add(writer, &node, err);
	return rc < 0 ? rc : repo_tree_writer_finish(writer, tree, err);
}

/* The file's tree, then a tree for each directory above it. */
static int write_trees(struct putting *putting, const char *path, struct repo_id *ret,
		       struct cairn_err *err)
{
	cairn_auto_free char *copy = cairn_strdup(path);
	char *slash = copy ? strrchr(copy, '/') : NULL;
	uint64_t inode = 100;
	int rc;

	if (!slash)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is no absolute path", path);
	rc = write_file_tree(putting, slash + 1, ret, err);
	while (rc == 0 && slash > copy) {
		*slash = 0;
		slash = strrchr(copy, '/');
		rc = write_dir_tree(putting->repo, slash + 1, inode++, ret, err);
	}
	return rc;
}

static int save(struct putting *putting, const char *path, struct cairn_err *err)
{
	const char *tags[] = {"repotool", "a&b"};
	struct repo_snapshot snapshot = {.time_ns = (int64_t)cairn_now_ns(),
					 .paths = &path,
					 .n_paths = 1,
					 .username = "root",
					 .tags = tags,
					 .n_tags = 2,
					 .program_version = "repotool 1",
					 .summary = {.given = true,
						     .backup_start_ns = (int64_t)cairn_now_ns(),
						     .backup_end_ns = (int64_t)cairn_now_ns(),
						     .total_files_processed = 1,
						     .total_bytes_processed = putting->size}};
	char hex[REPO_ID_TEXT_MAX];
	struct repo_id id;
	int rc = write_trees(putting, path, &snapshot.tree, err);

	if (rc == 0)
		rc = repo_snapshot_save(putting->repo, &snapshot, &id, err);
	if (rc == 0)
		printf("%s\n", repo_id_format(&id, hex));
	return rc;
}

static int put(struct putting *putting, const char *path, struct cairn_err *err)
{
	struct repo_stats stats;
	int rc;

	putting->n = (size_t)((putting->size + putting->chunk - 1) / putting->chunk);
	putting->ids = cairn_calloc(putting->n, sizeof(*putting->ids));
	if (!putting->ids)
		return cairn_err_nomem(err, "ids");
	rc = put_content(putting, err);
	if (rc == 0)
		rc = save(putting, path, err);
	repo_get_stats(putting->repo, &stats);
	fprintf(stderr, "new %" PRIu64 " known %" PRIu64 " stored %" PRIu64 "\n", stats.blobs_new,
		stats.blobs_known, stats.bytes_stored);
	free(putting->ids);
	return rc;
}

int tool_put(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	cairn_auto_fd int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	struct putting putting = {.fd = fd, .chunk = 65536, .mutex = PTHREAD_MUTEX_INITIALIZER};
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cairn_err_sys(err, errno, "open '%s'", argv[1]);
	putting.size = (uint64_t)st.st_size;
	rc = argc > 2 ? cairn_parse_size(argv[2], &putting.chunk, err) : 0;
	if (rc == 0)
		rc = tool_open(REPO_LOCK_SHARED, true, &repo, err);
	if (rc == 0 && tool_number("REPOTOOL_ADOPT", 0))
		rc = repo_adopt_packs(repo, NULL, NULL, err);
	putting.repo = repo;
	return rc < 0 ? rc : put(&putting, argv[0], err);
}

/* ---- out of it ------------------------------------------------------------- */

struct getting {
	struct repo *repo;
	struct repo_id *ids;
	uint64_t *offsets;
	size_t n, cap, base;
	uint64_t end;
	int fd;
};

static int collect(void *arg, const struct repo_id *ids, size_t n, struct cairn_err *err)
{
	struct getting *getting = arg;

	if (getting->n + n > getting->cap) {
		size_t cap = (getting->n + n) * 2;
		struct repo_id *more =
			cairn_realloc_array(getting->ids, cap, sizeof(*getting->ids));
		uint64_t *offsets;

		if (!more)
			return cairn_err_nomem(err, "ids");
		getting->ids = more;
		offsets = cairn_realloc_array(getting->offsets, cap, sizeof(*offsets));
		if (!offsets)
			return cairn_err_nomem(err, "ids");
		getting->offsets = offsets;
		getting->cap = cap;
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t size;
		int rc = repo_blob_size(getting->repo, REPO_BLOB_DATA, &ids[i], &size, err);

		if (rc < 0)
			return rc;
		getting->ids[getting->n] = ids[i];
		getting->offsets[getting->n++] = getting->end;
		getting->end += size;
	}
	return 0;
}

static int write_blob(void *arg, size_t i, const uint8_t *data, size_t n, struct cairn_err *err)
{
	struct getting *getting = arg;

	if (cairn_pwrite_full(getting->fd, data, n, getting->offsets[getting->base + i]) < 0)
		return cairn_err_sys(err, errno, "write");
	return 0;
}

static int get(struct getting *getting, const struct repo_id *tree, const char *path,
	       struct cairn_err *err)
{
	cairn_cleanup(repo_found_node_done) struct repo_found_node found = {0};
	int rc = repo_tree_find(getting->repo, tree, path, &found, err);

	if (rc == 0)
		rc = repo_tree_read_content(getting->repo, &found.tree, found.node.name, collect,
					    getting, err);
	if (rc == 0 && getting->end != found.node.size)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "size differs");
	if (rc == 0 && ftruncate(getting->fd, (off_t)getting->end) < 0)
		return cairn_err_sys(err, errno, "truncate");
	for (; rc == 0 && getting->base < getting->n; getting->base += 256) {
		size_t n = getting->n - getting->base < 256 ? getting->n - getting->base : 256;

		rc = repo_blob_get_many(getting->repo, getting->ids + getting->base, n, write_blob,
					getting, err);
	}
	return rc;
}

/* By the beginning of its id, or the newest of all for "latest". */
static int find_snapshot(struct repo *repo, const char *name, struct repo_snapshot **ret,
			 struct cairn_err *err)
{
	cairn_cleanup(repo_snapshot_list_done) struct repo_snapshot_list list = {0};
	int rc;

	if (strcmp(name, "latest") != 0)
		return repo_snapshot_find(repo, name, ret, err);
	rc = repo_snapshot_list(repo, &list, err);
	if (rc == 0 && list.n == 0)
		rc = cairn_err_set(err, CAIRN_NOT_FOUND, "there is no snapshot");
	if (rc == 0)
		*ret = cairn_take(list.items[repo_snapshot_newest(list.items, list.n)]);
	return rc;
}

int tool_get(int argc, char **argv, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	cairn_cleanup(repo_snapshot_freep) struct repo_snapshot *snapshot = NULL;
	cairn_auto_fd int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct getting getting = {.fd = fd};
	int rc;

	(void)argc;
	if (fd < 0)
		return cairn_err_sys(err, errno, "open '%s'", argv[2]);
	rc = tool_open(REPO_LOCK_SHARED, true, &repo, err);
	getting.repo = repo;
	if (rc == 0)
		rc = find_snapshot(repo, argv[0], &snapshot, err);
	if (rc == 0)
		rc = get(&getting, &snapshot->tree, argv[1], err);
	free(getting.ids);
	free(getting.offsets);
	return rc;
}
