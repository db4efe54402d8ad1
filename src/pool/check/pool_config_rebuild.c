/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/check/pool_config_rebuild.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/io.h"
#include "base/random.h"
#include "block/set.h"
#include "pool/pool.h"
#include "pool/pool_impl.h"
#include "pool/store/pool_image.h"

/* A marker has some 200 bytes; in longer ones no wrong byte is searched for. */
#define SEARCH_MAX 512

/* The inode of every subvolume's top directory. */
#define SUBVOLUME_INODE 256

/* True if another value of one byte makes the checksum fit. */
static bool correct_one_byte(char *text, size_t n, struct marker *ret)
{
	for (size_t i = 0; i < n; i++) {
		char was = text[i];

		for (unsigned value = 1; value < 256; value++) {
			text[i] = (char)value;
			if (pool_config_decode(text, n, ret, NULL) == 0)
				return true;
		}
		text[i] = was;
	}
	return false;
}

static bool pool_config_rebuild_is_file(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* Destroying a pool removes the marker after all of this. */
static bool is_left_of_pool(int dir_fd)
{
	return pool_config_rebuild_is_file(dir_fd, POOL_LOCK_NAME) &&
	       (pool_config_rebuild_is_file(dir_fd, POOL_IMAGE_NAME) ||
		pool_config_rebuild_is_file(dir_fd, "catalogue.db"));
}

/* Which filesystem is in the image: by the magic numbers of both. */
static int find_image(int dir_fd, struct marker *m, struct cairn_err *err)
{
	cairn_auto_fd int fd = -1;
	char magic[8];
	int rc = cairn_open_regular(dir_fd, POOL_IMAGE_NAME, O_RDONLY, 0, &fd, err);

	if (rc == CAIRN_NOT_FOUND) {
		memcpy(m->image, "none", sizeof("none"));
		return 0;
	}
	if (rc)
		return rc;
	if (pread(fd, magic, 8, 0x10040) == 8 && memcmp(magic, "_BHRfS_M", 8) == 0) {
		memcpy(m->image, "btrfs", sizeof("btrfs"));
		memcpy(m->backend, "btrfs", sizeof("btrfs"));
	} else if (pread(fd, magic, 4, 0) == 4 && memcmp(magic, "XFSB", 4) == 0) {
		memcpy(m->image, "xfs", sizeof("xfs"));
		memcpy(m->backend, "reflink", sizeof("reflink"));
	} else {
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "%s is damaged, and %s holds neither btrfs nor XFS: restore "
				     "both from a backup",
				     MARKER_NAME, POOL_IMAGE_NAME);
	}
	return 0;
}

/* Looks at one object in `name`: a subvolume, or anything else. */
static void look_at_object(int dir_fd, const char *name, bool *ret_any, bool *ret_subvolume)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct stat st;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (!*ret_any && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.' ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		*ret_any = true;
		*ret_subvolume = S_ISDIR(st.st_mode) && st.st_ino == SUBVOLUME_INODE;
	}
	closedir(dir);
}

/* Without an image: only the btrfs back end has subvolumes. The other two have the same
 * files; each reads what the other has made. */
static int find_backend(int dir_fd, const char *dir, struct marker *m, struct cairn_err *err)
{
	bool any = false;
	bool subvolume = false;
	struct image_host host;
	const char *name;
	int rc;

	look_at_object(dir_fd, "volumes", &any, &subvolume);
	look_at_object(dir_fd, "snapshots", &any, &subvolume);
	if (m->backend[0] && (!any || subvolume == (strcmp(m->backend, "btrfs") == 0)))
		return 0;
	rc = pool_image_probe(dir, &host, err);
	if (rc)
		return rc;
	if (any ? subvolume : host.is_btrfs && host.can_tree_search)
		name = "btrfs";
	else
		name = host.can_reflink ? "reflink" : "copy";
	snprintf(m->backend, sizeof(m->backend), "%s", name);
	return 0;
}

/* A line that can be read may be damaged as well, so the retention does not get shorter
 * than that of a new pool. */
static int find_rest(struct marker *m, struct cairn_err *err)
{
	m->ready = true;
	if (m->retention_ms < POOL_RETENTION_DEFAULT_MS)
		m->retention_ms = POOL_RETENTION_DEFAULT_MS;
	if (!m->granularity)
		m->granularity = BLOCK_GRANULARITY_DEFAULT;
	return m->id[0] ? 0 : cairn_random_hex(m->id, 16, err);
}

static int pool_config_rebuild_derive(int dir_fd, const char *dir, struct marker *m,
				      struct cairn_err *err)
{
	int rc = find_image(dir_fd, m, err);

	if (!rc && strcmp(m->image, "none") == 0)
		rc = find_backend(dir_fd, dir, m, err);
	return rc ? rc : find_rest(m, err);
}

int pool_config_rebuild(int dir_fd, const char *dir, struct marker_rebuilt *ret,
			struct cairn_err *err)
{
	cairn_auto_free char *text = NULL;
	struct marker_rebuilt made = {0};
	struct marker *m = &made.marker;
	size_t n = 0;
	int rc = cairn_file_read_regular(dir_fd, MARKER_NAME, MARKER_BYTES_MAX, &text, &n, err);

	if (rc == CAIRN_NOT_FOUND && !is_left_of_pool(dir_fd))
		return rc;
	if (rc && rc != CAIRN_NOT_FOUND && rc != CAIRN_RANGE)
		return rc;
	if (!rc && n <= SEARCH_MAX && correct_one_byte(text, n, m)) {
		snprintf(made.fault, sizeof(made.fault),
			 "%s has a wrong byte; its checksum shows which", MARKER_NAME);
		*ret = made;
		return 0;
	}
	if (!rc && pool_config_decode(text, n, m, err) == CAIRN_UNIMPLEMENTED)
		return CAIRN_UNIMPLEMENTED;
	if (!rc)
		pool_config_salvage(text, n, m);
	rc = pool_config_rebuild_derive(dir_fd, dir, m, err);
	if (rc)
		return rc;
	snprintf(made.fault, sizeof(made.fault),
		 "%s is %s; by what is in the directory it is: backend %s, image %s, "
		 "retention-ms %" PRIu64 ", granularity %" PRIu32,
		 MARKER_NAME, text ? "damaged" : "missing", m->backend, m->image, m->retention_ms,
		 m->granularity);
	*ret = made;
	return 0;
}
