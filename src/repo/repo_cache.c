/* SPDX-License-Identifier: Apache-2.0 */

#include "repo/repo_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/random.h"
#include "repo/cache_impl.h"
#include "repo/index.h"
#include "repo/index_cache.h"
#include "repo/names.h"
#include "repo/repo_impl.h"

#define WHOLE_MAX     ((size_t)64 << 20)
#define SEALED_MAX    ((size_t)256 << 20)
#define SNAPSHOTS_MAX 10000U
#define LAYOUTS_MAX   64U

char *repo_cache_path(const struct repo *repo, const char *name)
{
	if (!repo->cache_dir)
		return NULL;
	return cairn_printf("%s/%s%s%s", repo->cache_dir, repo_config_id(repo), name ? "/" : "",
			    name ? name : "");
}

/* No other user may write there, because its contents are trusted. */
static bool is_private(const char *dir)
{
	struct stat st;

	return lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       (st.st_mode & 022) == 0;
}

/* Also creates the parent directory, because a new user has no ~/.cache. */
static void make_dirs(const char *cache_dir)
{
	cairn_auto_free char *above = cairn_strdup(cache_dir);
	char *slash = above ? strrchr(above, '/') : NULL;

	if (slash && slash != above) {
		*slash = '\0';
		(void)mkdir(above, 0700);
	}
	(void)mkdir(cache_dir, 0700);
}

bool repo_cache_make_dir(const struct repo *repo)
{
	cairn_auto_free char *dir = repo_cache_path(repo, NULL);

	if (!dir)
		return false;
	make_dirs(repo->cache_dir);
	(void)mkdir(dir, 0700);
	return is_private(dir);
}

static char *repo_cache_path_of(const struct repo *repo, const char *kind, const struct repo_id *id)
{
	char hex[REPO_ID_TEXT_MAX], name[REPO_ID_TEXT_MAX + 16];

	snprintf(name, sizeof(name), "%s%s", kind, repo_id_format(id, hex));
	return repo_cache_path(repo, name);
}

/* ---- snapshots --------------------------------------------------------------- */

bool repo_cache_get_snapshot(struct repo *repo, const struct repo_id *name, uint8_t **ret_data,
			     size_t *ret_n)
{
	cairn_auto_free char *path =
		repo->cache_used ? repo_cache_path_of(repo, REPO_CACHE_SNAPSHOT, name) : NULL;
	char *data = NULL;

	if (!path || cairn_file_read(AT_FDCWD, path, REPO_SNAPSHOT_MAX, &data, ret_n, NULL) != 0)
		return false;
	*ret_data = (uint8_t *)data;
	return true;
}

/* Not synced: the hash of a truncated file does not match its name. */
void repo_cache_put_snapshot(struct repo *repo, const struct repo_id *name, const void *data,
			     size_t n)
{
	cairn_auto_free char *path =
		repo->cache_used ? repo_cache_path_of(repo, REPO_CACHE_SNAPSHOT, name) : NULL;
	cairn_auto_fd int fd = -1;

	if (!path)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && cairn_write_full(fd, data, n) < 0)
		(void)unlink(path);
}

/* ---- caches of the index ----------------------------------------------------- */

/* A truncated index file counts as missing, because no other process could read it. */
static bool all_listed(const struct repo *repo, const struct repo_named *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct repo_named *listed =
			repo_names_find(&repo->index_listed, &names[i].name);

		if (!listed || listed->size != names[i].size)
			return false;
	}
	return true;
}

/* Opens a cache if it is valid and the store still has all of its index files; removes it
 * otherwise. */
static struct repo_index_cache *repo_cache_open_one(const struct repo *repo, const char *name)
{
	cairn_auto_free char *path = repo_cache_path(repo, name);
	struct repo_index_cache *cache = NULL;
	const struct repo_named *names;
	size_t n;

	if (!path)
		return NULL;
	if (repo_index_cache_open(path, repo_config_id(repo), &cache, NULL) == 0) {
		names = repo_index_cache_names(cache, &n);
		if (n > 0 && all_listed(repo, names, n))
			return cache;
		repo_index_cache_free(cache);
	}
	(void)unlink(path);
	return NULL;
}

/* The largest first, because most lookups succeed there. */
static int by_blobs(const void *a, const void *b)
{
	size_t x = repo_index_cache_blobs(*(struct repo_index_cache *const *)a);
	size_t y = repo_index_cache_blobs(*(struct repo_index_cache *const *)b);

	return x > y ? -1 : x < y;
}

static bool is_covered(const struct repo_named *names, size_t n, const struct repo_names *by)
{
	for (size_t i = 0; i < n; i++)
		if (!repo_names_find(by, &names[i].name))
			return false;
	return true;
}

/* True when the index file that is stored hashes to its name. */
static bool is_intact(const struct repo *repo, const struct repo_id *name)
{
	cairn_auto_free uint8_t *data = NULL;
	struct repo_id got;
	size_t n;

	return repo_store_get_all(repo->store, REPO_FILE_INDEX, name, REPO_FILE_STORED_MAX, &data,
				  &n, NULL) == 0 &&
	       repo_id_of(data, n, &got) && repo_id_equal(&got, name);
}

/* The index file with that number, counted over all caches; NULL if there are fewer. */
static const struct repo_named *repo_cache_name_at(const struct repo *repo, size_t number,
						   const struct repo_index_cache **ret_cache)
{
	for (size_t i = 0; i < repo_index_attached(repo->index); i++) {
		size_t n;
		const struct repo_named *names;

		*ret_cache = repo_index_attached_at(repo->index, i);
		names = repo_index_cache_names(*ret_cache, &n);
		if (number < n)
			return &names[number];
		number -= n;
	}
	return NULL;
}

/* Returns the attached cache that contains an unreadable index file, of those that are read, or
 * NULL. */
static const struct repo_index_cache *find_damaged(const struct repo *repo)
{
	uint64_t total = 0, bytes = 0, start = 0;

	for (size_t i = 0; i < repo_index_attached(repo->index); i++) {
		size_t n;

		(void)repo_index_cache_names(repo_index_attached_at(repo->index, i), &n);
		total += n;
	}
	(void)cairn_random_bytes(&start, sizeof(start), NULL);
	for (uint64_t i = 0; i < total && i < REPO_CACHE_CHECK_FILES; i++) {
		size_t number = (size_t)((start % total + i) % total);
		const struct repo_index_cache *cache = NULL;
		const struct repo_named *named = repo_cache_name_at(repo, number, &cache);

		bytes += named ? named->size : 0;
		if (!named || (i > 0 && bytes > REPO_CACHE_CHECK_BYTES))
			break;
		if (!is_intact(repo, &named->name))
			return cache;
	}
	return NULL;
}

int repo_cache_check(struct repo *repo, bool idle, struct cairn_err *err)
{
	const struct repo_index_cache *damaged;

	if (idle && repo->packs_listed.n > REPO_CACHE_CHECK_PACKS)
		return 0;
	damaged = find_damaged(repo);
	if (!damaged)
		return 0;
	(void)unlink(repo_index_cache_path(damaged));
	return repo_load_index(repo, err);
}

/* Attaches all caches except those that larger ones cover completely. */
static void attach_all(struct repo *repo, struct repo_index_cache **caches, size_t n)
{
	cairn_cleanup(repo_names_done) struct repo_names covered = {0};

	for (size_t i = 0; i < n; i++) {
		size_t n_names;
		const struct repo_named *names = repo_index_cache_names(caches[i], &n_names);

		if (is_covered(names, n_names, &covered)) {
			(void)unlink(repo_index_cache_path(caches[i]));
			repo_index_cache_free(caches[i]);
			continue;
		}
		for (size_t k = 0; k < n_names; k++)
			(void)repo_names_add(&covered, &names[k], NULL);
		repo_names_sort(&covered);
		(void)repo_index_attach(repo->index, caches[i], NULL);
	}
}

static bool is_kind(const char *name, const char *kind)
{
	return strncmp(name, kind, strlen(kind)) == 0;
}

void repo_cache_attach(struct repo *repo)
{
	cairn_auto_free char *path = repo_cache_path(repo, NULL);
	struct repo_index_cache *caches[REPO_CACHE_FILES_MAX];
	DIR *dir = path && is_private(path) ? opendir(path) : NULL;
	const struct dirent *entry;
	size_t n = 0, snapshots = 0, layouts = 0;

	while (dir && n < REPO_CACHE_FILES_MAX && (entry = readdir(dir))) {
		/* Without this limit, entries of forgotten snapshots would
		 * accumulate. */
		if ((is_kind(entry->d_name, REPO_CACHE_SNAPSHOT) && ++snapshots > SNAPSHOTS_MAX) ||
		    (is_kind(entry->d_name, REPO_CACHE_LAYOUT) && ++layouts > LAYOUTS_MAX))
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
		if (is_kind(entry->d_name, REPO_CACHE_INDEX) && !strchr(entry->d_name, '.'))
			n += (caches[n] = repo_cache_open_one(repo, entry->d_name)) != NULL;
	}
	if (dir)
		closedir(dir);
	qsort(caches, n, sizeof(*caches), by_blobs);
	attach_all(repo, caches, n);
	repo->cache_used = n > 0;
}

int repo_cache_mend(struct repo *repo, struct cairn_err *err)
{
	bool damaged = false;
	int rc;

	for (size_t i = 0; i < repo_index_attached(repo->index); i++) {
		const struct repo_index_cache *cache = repo_index_attached_at(repo->index, i);

		if (!repo_index_cache_damaged(cache))
			continue;
		(void)unlink(repo_index_cache_path(cache));
		damaged = true;
	}
	rc = damaged ? repo_load_index(repo, err) : 0;
	return rc < 0 ? rc : damaged;
}

/* ---- trees that are whole ---------------------------------------------------- */

/* Hashes the bytes together with the id of the tree. */
static bool seal_bytes(const struct repo_id *tree, const void *data, size_t n, struct repo_id *ret)
{
	struct repo_id parts[2] = {*tree};

	return repo_id_of(data, n, &parts[1]) && repo_id_of(parts, sizeof(parts), ret);
}

static bool seal_names(const struct repo_id *tree, const struct repo_named *names, size_t n,
		       struct repo_id *ret)
{
	return seal_bytes(tree, names, n * sizeof(*names), ret);
}

static char *whole_path(const struct repo *repo, const struct repo_id *tree)
{
	return repo_cache_path_of(repo, REPO_CACHE_WHOLE, tree);
}

bool repo_cache_is_whole(struct repo *repo, const struct repo_id *tree)
{
	cairn_auto_free char *path = whole_path(repo, tree);
	cairn_auto_free char *dir = repo_cache_path(repo, NULL);
	cairn_auto_free char *data = NULL;
	const struct repo_named *names;
	struct repo_id sum;
	size_t n = 0;

	if (!path || !dir || !repo->packs_whole || !is_private(dir) ||
	    cairn_file_read(AT_FDCWD, path, WHOLE_MAX, &data, &n, NULL) != 0)
		return false;
	if (n <= sizeof(sum) || (n - sizeof(sum)) % sizeof(struct repo_named) != 0)
		return false;
	n = (n - sizeof(sum)) / sizeof(struct repo_named);
	names = (const struct repo_named *)data;
	if (!seal_names(tree, names, n, &sum) || memcmp(&names[n], &sum, sizeof(sum)) != 0)
		return false;
	return all_listed(repo, names, n);
}

/* Lists the index files that the known entries come from. The caller frees the list. */
static struct repo_named *known_names(const struct repo *repo, size_t *ret_n)
{
	const struct repo_names *memory = &repo->index_known;
	size_t n = memory->n + repo->index_saved.n, at = 0, k;
	struct repo_named *all;

	for (size_t i = 0; i < repo_index_attached(repo->index); i++) {
		(void)repo_index_cache_names(repo_index_attached_at(repo->index, i), &k);
		n += k;
	}
	all = cairn_calloc(n + 1, sizeof(*all));
	for (size_t i = 0; all && i < memory->n; i++)
		all[at++] = memory->items[i];
	for (size_t i = 0; all && i < repo->index_saved.n; i++)
		all[at++] = repo->index_saved.items[i];
	for (size_t i = 0; all && i < repo_index_attached(repo->index); i++) {
		const struct repo_named *names =
			repo_index_cache_names(repo_index_attached_at(repo->index, i), &k);

		memcpy(all + at, names, k * sizeof(*all));
		at += k;
	}
	*ret_n = n;
	return all;
}

void repo_cache_set_whole(struct repo *repo, const struct repo_id *tree,
			  const struct repo_id *before)
{
	cairn_auto_free char *path = whole_path(repo, tree);
	cairn_auto_free char *old = before ? whole_path(repo, before) : NULL;
	cairn_auto_free struct repo_named *names = NULL;
	struct repo_id sum;
	size_t n = 0;

	if (!path || !repo->packs_whole || !repo_cache_make_dir(repo))
		return;
	names = known_names(repo, &n);
	if (!names || !seal_names(tree, names, n, &sum))
		return;
	memcpy(&names[n], &sum, sizeof(sum)); /* known_names() allocates one more */
	if (old)
		(void)unlink(old);
	(void)cairn_file_replace(AT_FDCWD, path, names, n * sizeof(*names) + sizeof(sum), NULL);
}

/* ---- what callers know of trees ---------------------------------------------- */

static char *sealed_path(const struct repo *repo, enum repo_cached kind, const struct repo_id *tree)
{
	return repo_cache_path_of(
		repo, kind == REPO_CACHED_HEAD ? REPO_CACHE_HEAD : REPO_CACHE_LAYOUT, tree);
}

bool repo_cache_get_sealed(struct repo *repo, enum repo_cached kind, const struct repo_id *tree,
			   uint8_t **ret_data, size_t *ret_n)
{
	cairn_auto_free char *path = sealed_path(repo, kind, tree);
	cairn_auto_free char *dir = repo_cache_path(repo, NULL);
	cairn_auto_free char *data = NULL;
	struct repo_id sum;
	size_t n = 0;

	if (!path || !dir || !is_private(dir) ||
	    cairn_file_read(AT_FDCWD, path, SEALED_MAX, &data, &n, NULL) != 0 || n <= sizeof(sum))
		return false;
	n -= sizeof(sum);
	if (!seal_bytes(tree, data, n, &sum) || memcmp(data + n, &sum, sizeof(sum)) != 0)
		return false;
	*ret_data = (uint8_t *)cairn_take(data);
	*ret_n = n;
	return true;
}

void repo_cache_put_sealed(struct repo *repo, enum repo_cached kind, const struct repo_id *tree,
			   const void *data, size_t n)
{
	cairn_auto_free char *path = sealed_path(repo, kind, tree);
	cairn_auto_free uint8_t *sealed = NULL;
	struct repo_id sum;

	if (!path || n > SEALED_MAX - sizeof(sum) || !repo_cache_make_dir(repo))
		return;
	sealed = cairn_alloc(n + sizeof(sum));
	if (!sealed || !seal_bytes(tree, data, n, &sum))
		return;
	memcpy(sealed, data, n);
	memcpy(sealed + n, &sum, sizeof(sum));
	(void)cairn_file_replace(AT_FDCWD, path, sealed, n + sizeof(sum), NULL);
}

void repo_cache_drop_sealed(struct repo *repo, enum repo_cached kind, const struct repo_id *tree)
{
	cairn_auto_free char *path = sealed_path(repo, kind, tree);

	if (path)
		(void)unlink(path);
}
