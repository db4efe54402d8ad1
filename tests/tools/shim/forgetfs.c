/* SPDX-License-Identifier: Apache-2.0 */

/* A filesystem in memory that forgets: forgetfs MOUNTPOINT [-o ...]
 *
 * It keeps what programs see apart from what would be on the disk. A power cut,
 * on command, leaves only the latter. Data reaches the disk by fsync() of the
 * file, names by fsync() of their directory. A failed fsync() drops the dirty
 * pages of the file as Linux does: programs go on reading them, the next fsync()
 * succeeds, and they are never written unless they are changed again.
 *
 * Commands come on standard input, one a line, and are answered with one line:
 *   fail-sync N    the N-th fsync() of a file from now on fails; 0: none
 *   fail-more N    then N more in a row
 *   fail-dir N     the same for directories
 *   hold 0|1       1: syncs succeed and do not count, and there is space, until 0
 *   full 0|1       writes that need space fail with ENOSPC
 *   syncs          how many fsync() calls of files and directories there were
 *   cut SEED       power cut; with SEED > 0 some dirty pages were written, too
 * At the end of the input it unmounts. One thread serves the filesystem, another
 * one the commands, under one lock.
 */
#define FUSE_USE_VERSION 314

#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define PAGE      4096U
#define FILE_MAX  (64ULL << 20)
#define SPACE_MAX (1ULL << 30)

struct node;

struct name {
	struct name *next;
	struct node *node;
	char text[];
};

struct node {
	struct node *all; /* list of all that ever were; none is freed */
	uint64_t ino;
	mode_t mode;
	struct timespec mtime, ctime;
	struct name *names, *disk_names; /* of a directory */
	uint8_t *bytes, *disk_bytes;     /* of a file, FILE_MAX mapped on demand */
	uint64_t size, disk_size;
	uint8_t *dirty, *allocated; /* by page */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct node *root, *all_nodes;
static uint64_t file_syncs, dir_syncs, fail_sync, fail_more, fail_dir, next_ino = 1;
static bool full, held;

static struct timespec now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t;
}

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

/* Zeroes. Untouched pages take no memory and no time; calloc() touches all of them when
 * MALLOC_PERTURB_ is set, as in every run of meson test. */
static uint8_t *map_zeroes(size_t n)
{
	void *memory = mmap(NULL, n, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return must(memory == MAP_FAILED ? NULL : memory);
}

static struct node *node_new(mode_t mode)
{
	struct node *node = must(calloc(1, sizeof(*node)));

	node->ino = next_ino++;
	node->mode = mode;
	node->mtime = node->ctime = now();
	if (S_ISREG(mode)) {
		node->bytes = map_zeroes(FILE_MAX);
		node->disk_bytes = map_zeroes(FILE_MAX);
		node->dirty = must(calloc(1, FILE_MAX / PAGE));
		node->allocated = must(calloc(1, FILE_MAX / PAGE));
	}
	node->all = all_nodes;
	all_nodes = node;
	return node;
}

/* ---- names --------------------------------------------------------------- */

static struct name **find_name(struct node *dir, const char *text, size_t n)
{
	struct name **at = &dir->names;

	while (*at && (strncmp((*at)->text, text, n) != 0 || (*at)->text[n] != '\0'))
		at = &(*at)->next;
	return at;
}

static void add_name(struct node *dir, const char *text, struct node *node)
{
	struct name *name = must(calloc(1, sizeof(*name) + strlen(text) + 1));

	memcpy(name->text, text, strlen(text) + 1);
	name->node = node;
	name->next = dir->names;
	dir->names = name;
	dir->mtime = dir->ctime = now();
}

static void remove_name(struct node *dir, struct name **at)
{
	struct name *gone = *at;

	*at = gone->next;
	free(gone);
	dir->mtime = dir->ctime = now();
}

static struct name *copy_names(const struct name *from)
{
	struct name *list = NULL;

	for (; from; from = from->next) {
		size_t n = sizeof(*from) + strlen(from->text) + 1;
		struct name *copy = must(malloc(n));

		memcpy(copy, from, n);
		copy->next = list;
		list = copy;
	}
	return list;
}

static void free_names(struct name *list)
{
	while (list) {
		struct name *next = list->next;

		free(list);
		list = next;
	}
}

static struct node *node_at(const char *path)
{
	struct node *node = root;

	while (node && *path) {
		size_t n;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 0)
			break;
		if (!S_ISDIR(node->mode))
			return NULL;
		struct name *name = *find_name(node, path, n);

		node = name ? name->node : NULL;
		path += n;
	}
	return node;
}

/* The directory of a path, and its last part. */
static struct node *parent_of(const char *path, const char **ret_last)
{
	char dir[4096];
	const char *slash = strrchr(path, '/');

	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	*ret_last = slash + 1;
	return node_at(dir);
}

static struct node *node_of(const char *path, const struct fuse_file_info *fi)
{
	return fi && fi->fh ? (struct node *)(uintptr_t)fi->fh : path ? node_at(path) : NULL;
}

/* ---- operations; each is called with the lock held by the macro below ------- */

static int do_getattr(const char *path, struct stat *st, const struct fuse_file_info *fi)
{
	const struct node *node = node_of(path, fi);

	if (!node)
		return -ENOENT;
	*st = (struct stat){
		.st_ino = node->ino,
		.st_mode = node->mode,
		.st_nlink = S_ISDIR(node->mode) ? 2 : 1,
		.st_size = (off_t)node->size,
		.st_blksize = PAGE,
		.st_blocks = (blkcnt_t)((node->size + 511) / 512),
		.st_mtim = node->mtime,
		.st_ctim = node->ctime,
		.st_atim = node->mtime,
	};
	return 0;
}

static int make_node(const char *path, mode_t mode, struct node **ret)
{
	const char *last;
	struct node *dir = parent_of(path, &last);

	if (!dir)
		return -ENOENT;
	if (*find_name(dir, last, strlen(last)))
		return -EEXIST;
	if (full)
		return -ENOSPC;
	*ret = node_new(mode);
	add_name(dir, last, *ret);
	return 0;
}

static int do_unlink(const char *path, bool is_dir)
{
	const char *last;
	struct node *dir = parent_of(path, &last);
	struct name **at = dir ? find_name(dir, last, strlen(last)) : NULL;

	if (!at || !*at)
		return -ENOENT;
	if (is_dir && (*at)->node->names)
		return -ENOTEMPTY;
	remove_name(dir, at);
	return 0;
}

static int do_rename(const char *from, const char *to, unsigned flags)
{
	const char *old_last, *new_last;
	struct node *old_dir = parent_of(from, &old_last), *new_dir = parent_of(to, &new_last);
	struct name **old_at, **new_at;
	struct node *node;

	if (!old_dir || !new_dir || (flags & ~1U))
		return flags & ~1U ? -EINVAL : -ENOENT;
	old_at = find_name(old_dir, old_last, strlen(old_last));
	new_at = find_name(new_dir, new_last, strlen(new_last));
	if (!*old_at)
		return -ENOENT;
	node = (*old_at)->node;
	if (*new_at && (flags & 1U))
		return -EEXIST;
	if (*new_at && (*new_at)->node == node)
		return 0;
	if (*new_at && (*new_at)->node->names)
		return -ENOTEMPTY;
	if (*new_at)
		remove_name(new_dir, new_at);
	remove_name(old_dir, find_name(old_dir, old_last, strlen(old_last)));
	add_name(new_dir, new_last, node);
	return 0;
}

static void touch(struct node *node, uint64_t from, uint64_t to)
{
	for (uint64_t page = from / PAGE; page * PAGE < to; page++)
		node->dirty[page] = node->allocated[page] = 1;
	node->mtime = node->ctime = now();
}

static int do_truncate(struct node *node, off_t size)
{
	uint64_t want = (uint64_t)size;

	if (!node)
		return -ENOENT;
	if (want > FILE_MAX)
		return -EFBIG;
	if (want < node->size) {
		memset(node->bytes + want, 0, node->size - want);
		touch(node, want, node->size);
	}
	node->size = want;
	node->mtime = node->ctime = now();
	return 0;
}

static bool needs_space(const struct node *node, uint64_t from, uint64_t to)
{
	for (uint64_t page = from / PAGE; page * PAGE < to; page++)
		if (!node->allocated[page])
			return true;
	return false;
}

static int do_write(struct node *node, const char *buf, size_t n, off_t offset)
{
	uint64_t from = (uint64_t)offset, to = from + n;

	if (to > FILE_MAX)
		return -EFBIG;
	if (full && !held && needs_space(node, from, to))
		return -ENOSPC;
	memcpy(node->bytes + from, buf, n);
	touch(node, from, to);
	if (to > node->size)
		node->size = to;
	return (int)n;
}

static int do_read(const struct node *node, char *buf, size_t n, off_t offset)
{
	uint64_t from = (uint64_t)offset;

	if (from >= node->size)
		return 0;
	n = node->size - from < n ? (size_t)(node->size - from) : n;
	memcpy(buf, node->bytes + from, n);
	return (int)n;
}

static int do_fsync(struct node *node)
{
	bool fails = false;

	if (!held) {
		file_syncs++;
		fails = fail_sync > 0 && --fail_sync == 0;
		if (fails && fail_more > 0) {
			fail_more--;
			fail_sync = 1;
		}
	}
	for (uint64_t page = 0; page < FILE_MAX / PAGE; page++) {
		if (node->dirty[page] && !fails)
			memcpy(node->disk_bytes + page * PAGE, node->bytes + page * PAGE, PAGE);
		node->dirty[page] = 0;
	}
	if (fails)
		return -EIO;
	node->disk_size = node->size;
	return 0;
}

static int do_fsyncdir(struct node *node)
{
	dir_syncs += !held;
	if (!held && fail_dir > 0 && --fail_dir == 0)
		return -EIO;
	free_names(node->disk_names);
	node->disk_names = copy_names(node->names);
	return 0;
}

/* ---- the table for FUSE ---------------------------------------------------- */

#define LOCKED(expression) (take_lock(), drop_lock(expression))

static void take_lock(void)
{
	pthread_mutex_lock(&lock);
}

static int drop_lock(int result)
{
	pthread_mutex_unlock(&lock);
	return result;
}

static int fs_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	return LOCKED(do_getattr(path, st, fi));
}

static int fs_mkdir(const char *path, mode_t mode)
{
	struct node *made;

	return LOCKED(make_node(path, S_IFDIR | (mode & 07777), &made));
}

static int fs_create(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	struct node *made = NULL;
	int rc = LOCKED(make_node(path, S_IFREG | (mode & 07777), &made));

	fi->fh = (uintptr_t)made;
	return rc;
}

static int fs_open(const char *path, struct fuse_file_info *fi)
{
	pthread_mutex_lock(&lock);
	fi->fh = (uintptr_t)node_at(path);
	pthread_mutex_unlock(&lock);
	return fi->fh ? 0 : -ENOENT;
}

static int fs_unlink(const char *path)
{
	return LOCKED(do_unlink(path, false));
}

static int fs_rmdir(const char *path)
{
	return LOCKED(do_unlink(path, true));
}

static int fs_rename(const char *from, const char *to, unsigned flags)
{
	return LOCKED(do_rename(from, to, flags));
}

static int fs_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	return LOCKED(do_truncate(node_of(path, fi), size));
}

static int fs_write(const char *path, const char *buf, size_t n, off_t offset,
		    struct fuse_file_info *fi)
{
	return LOCKED(do_write(node_of(path, fi), buf, n, offset));
}

static int fs_read(const char *path, char *buf, size_t n, off_t offset, struct fuse_file_info *fi)
{
	return LOCKED(do_read(node_of(path, fi), buf, n, offset));
}

static int fs_fsync(const char *path, int datasync, struct fuse_file_info *fi)
{
	(void)datasync;
	return LOCKED(do_fsync(node_of(path, fi)));
}

static int fs_fsyncdir(const char *path, int datasync, struct fuse_file_info *fi)
{
	(void)datasync;
	return LOCKED(do_fsyncdir(node_of(path, fi)));
}

static int fs_readdir(const char *path, void *buf, fuse_fill_dir_t fill, off_t offset,
		      struct fuse_file_info *fi, enum fuse_readdir_flags flags)
{
	const struct node *node;

	(void)offset;
	(void)flags;
	pthread_mutex_lock(&lock);
	node = node_of(path, fi);
	for (const struct name *name = node->names; name; name = name->next)
		fill(buf, name->text, NULL, 0, 0);
	pthread_mutex_unlock(&lock);
	return 0;
}

static int fs_chmod(const char *path, mode_t mode, struct fuse_file_info *fi)
{
	struct node *node;

	pthread_mutex_lock(&lock);
	node = node_of(path, fi);
	if (node)
		node->mode = (node->mode & S_IFMT) | (mode & 07777);
	pthread_mutex_unlock(&lock);
	return node ? 0 : -ENOENT;
}

static int fs_chown(const char *path, uid_t uid, gid_t gid, struct fuse_file_info *fi)
{
	(void)path;
	(void)uid;
	(void)gid;
	(void)fi;
	return 0;
}

static int fs_utimens(const char *path, const struct timespec times[2], struct fuse_file_info *fi)
{
	(void)path;
	(void)times;
	(void)fi;
	return 0;
}

static int do_fallocate(struct node *node, int mode, off_t offset, off_t length)
{
	uint64_t to = (uint64_t)offset + (uint64_t)length;

	if (mode != 0)
		return -EOPNOTSUPP;
	if (to > FILE_MAX)
		return -EFBIG;
	if (full && !held && needs_space(node, (uint64_t)offset, to))
		return -ENOSPC;
	touch(node, (uint64_t)offset, to);
	if (to > node->size)
		node->size = to;
	return 0;
}

static int fs_fallocate(const char *path, int mode, off_t offset, off_t length,
			struct fuse_file_info *fi)
{
	return LOCKED(do_fallocate(node_of(path, fi), mode, offset, length));
}

static int fs_statfs(const char *path, struct statvfs *st)
{
	(void)path;
	*st = (struct statvfs){
		.f_bsize = PAGE,
		.f_frsize = PAGE,
		.f_blocks = SPACE_MAX / PAGE,
		.f_bfree = full ? 0 : SPACE_MAX / PAGE,
		.f_bavail = full ? 0 : SPACE_MAX / PAGE,
		.f_namemax = 255,
	};
	return 0;
}

/* ---- commands --------------------------------------------------------------- */

static void cut_node(struct node *node, unsigned *seed)
{
	for (uint64_t page = 0; node->bytes && page < FILE_MAX / PAGE; page++) {
		if (node->dirty[page] && *seed && rand_r(seed) % 2) {
			memcpy(node->disk_bytes + page * PAGE, node->bytes + page * PAGE, PAGE);
			if (node->disk_size < (page + 1) * PAGE)
				node->disk_size = node->size < (page + 1) * PAGE
							  ? node->size
							  : (page + 1) * PAGE;
		}
		if (node->allocated[page])
			memcpy(node->bytes + page * PAGE, node->disk_bytes + page * PAGE, PAGE);
		node->dirty[page] = 0;
	}
	node->size = node->disk_size;
	if (node->bytes)
		memset(node->bytes + node->size, 0, (PAGE - node->size % PAGE) % PAGE);
	free_names(node->names);
	node->names = copy_names(node->disk_names);
}

static void power_cut(unsigned seed)
{
	for (struct node *node = all_nodes; node; node = node->all)
		cut_node(node, &seed);
}

static bool obey(const char *word, uint64_t number)
{
	if (strcmp(word, "fail-sync") == 0)
		fail_sync = number;
	else if (strcmp(word, "fail-more") == 0)
		fail_more = number;
	else if (strcmp(word, "fail-dir") == 0)
		fail_dir = number;
	else if (strcmp(word, "hold") == 0)
		held = number != 0;
	else if (strcmp(word, "full") == 0)
		full = number != 0;
	else if (strcmp(word, "cut") == 0)
		power_cut((unsigned)number);
	else
		return strcmp(word, "syncs") == 0;
	return true;
}

static uint64_t number_at(const char *digits)
{
	uint64_t number = 0;

	for (; *digits >= '0' && *digits <= '9'; digits++)
		number = number * 10 + (uint64_t)(*digits - '0');
	return number;
}

static void answer(char *line)
{
	char *rest = NULL;
	const char *word = strtok_r(line, " \n", &rest);
	bool known = word && obey(word, number_at(rest));

	if (known)
		printf("%llu %llu\n", (unsigned long long)file_syncs,
		       (unsigned long long)dir_syncs);
	else
		printf("unknown command\n");
}

static void *read_commands(void *arg)
{
	char line[256];

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		pthread_mutex_lock(&lock);
		answer(line);
		pthread_mutex_unlock(&lock);
		fflush(stdout);
	}
	kill(getpid(), SIGTERM);
	return arg;
}

/* Nothing is cached beyond an open file: a power cut changes all of it. */
static void *fs_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
	pthread_t thread;

	(void)conn;
	config->use_ino = 1;
	config->hard_remove = 1;
	config->nullpath_ok = 1;
	config->attr_timeout = config->entry_timeout = config->negative_timeout = 0;
	if (pthread_create(&thread, NULL, read_commands, NULL) != 0)
		abort();
	pthread_detach(thread);
	return NULL;
}

static const struct fuse_operations operations = {
	.init = fs_init,
	.getattr = fs_getattr,
	.mkdir = fs_mkdir,
	.create = fs_create,
	.open = fs_open,
	.opendir = fs_open,
	.unlink = fs_unlink,
	.rmdir = fs_rmdir,
	.rename = fs_rename,
	.truncate = fs_truncate,
	.write = fs_write,
	.read = fs_read,
	.fsync = fs_fsync,
	.fsyncdir = fs_fsyncdir,
	.readdir = fs_readdir,
	.chmod = fs_chmod,
	.chown = fs_chown,
	.utimens = fs_utimens,
	.fallocate = fs_fallocate,
	.statfs = fs_statfs,
};

int main(int argc, char **argv)
{
	char foreground[] = "-f", alone[] = "-s";
	char *args[16];

	if (argc < 2 || argc > 12) {
		fprintf(stderr, "usage: %s MOUNTPOINT [-o OPTIONS]\n", argv[0]);
		return 2;
	}
	root = node_new(S_IFDIR | 0755);
	for (int i = 0; i < argc; i++)
		args[i] = argv[i];
	args[argc] = foreground;
	args[argc + 1] = alone;
	args[argc + 2] = NULL;
	return fuse_main(argc + 2, args, &operations, NULL);
}
