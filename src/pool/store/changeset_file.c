/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/changeset_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "pool/store/file_owner.h"

#define WRITE_BUFFER 65536

struct setfile_writer {
	int sets_fd;
	int fd;
	char name[SETFILE_NAME_MAX];
	bool finished;
	struct block_set_writer *set;
	size_t len;
	char buf[WRITE_BUFFER];
};

void pool_changeset_file_name(uint64_t number, uint64_t generation, char out[SETFILE_NAME_MAX])
{
	snprintf(out, SETFILE_NAME_MAX, "set-%" PRIu64 "-%" PRIu64, number, generation);
}

bool pool_changeset_file_parse_name(const char *name, uint64_t *ret_number,
				    uint64_t *ret_generation)
{
	char number[24];
	const char *dash;

	if (strncmp(name, "set-", 4) != 0)
		return false;
	dash = strchr(name + 4, '-');
	if (!dash || (size_t)(dash - name - 4) >= sizeof(number))
		return false;
	memcpy(number, name + 4, (size_t)(dash - name - 4));
	number[dash - name - 4] = '\0';
	return cairn_parse_u64(number, ret_number, NULL) == 0 &&
	       cairn_parse_u64(dash + 1, ret_generation, NULL) == 0;
}

/* The name of the set in a directory entry, in quarantine or not; false if it is
 * not a set. */
static bool entry_is_set(const char *entry, bool aside, char name[SETFILE_NAME_MAX])
{
	size_t n = strcspn(entry, ".");
	uint64_t number;
	uint64_t generation;

	if (n >= SETFILE_NAME_MAX || strcmp(entry + n, aside ? SETFILE_ASIDE : "") != 0)
		return false;
	memcpy(name, entry, n);
	name[n] = '\0';
	return pool_changeset_file_parse_name(name, &number, &generation);
}

int pool_changeset_file_list(int sets_fd, bool aside,
			     int (*fn)(void *arg, const char *name, struct cairn_err *err),
			     void *arg, struct cairn_err *err)
{
	int fd = openat(sets_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;
	int rc = 0;

	if (!dir) {
		rc = cairn_err_sys(err, errno, "read the change sets");
		cairn_closep(&fd);
		return rc;
	}
	while (rc >= 0 && (errno = 0, entry = readdir(dir))) {
		char name[SETFILE_NAME_MAX];

		if (entry_is_set(entry->d_name, aside, name))
			rc = fn(arg, name, err);
	}
	if (rc >= 0 && errno)
		rc = cairn_err_sys(err, errno, "read the change sets");
	closedir(dir);
	return rc < 0 ? rc : 0;
}

struct newest {
	uint64_t number;
	uint64_t generation;
};

static int keep_newest(void *arg, const char *name, struct cairn_err *err)
{
	struct newest *newest = arg;
	uint64_t number;
	uint64_t generation;

	(void)err;
	if (pool_changeset_file_parse_name(name, &number, &generation) &&
	    number == newest->number && generation > newest->generation)
		newest->generation = generation;
	return 0;
}

int pool_changeset_file_newest_generation(int sets_fd, uint64_t number, uint64_t *ret,
					  struct cairn_err *err)
{
	struct newest newest = {.number = number};
	int rc = pool_changeset_file_list(sets_fd, false, keep_newest, &newest, err);

	if (!rc)
		rc = pool_changeset_file_list(sets_fd, true, keep_newest, &newest, err);
	if (!rc)
		*ret = newest.generation;
	return rc;
}

static int rename_set(int sets_fd, const char *from, const char *to, struct cairn_err *err)
{
	if (renameat2(sets_fd, from, sets_fd, to, RENAME_NOREPLACE) < 0)
		return cairn_err_sys(err, errno, "rename '%s' to '%s'", from, to);
	return cairn_sync_dir(sets_fd, to, err);
}

int pool_changeset_file_set_aside(int sets_fd, const char *name, struct cairn_err *err)
{
	char aside[SETFILE_NAME_MAX + sizeof(SETFILE_ASIDE)];

	snprintf(aside, sizeof(aside), "%s" SETFILE_ASIDE, name);
	return rename_set(sets_fd, name, aside, err);
}

int pool_changeset_file_bring_back(int sets_fd, const char *name, struct cairn_err *err)
{
	char aside[SETFILE_NAME_MAX + sizeof(SETFILE_ASIDE)];

	snprintf(aside, sizeof(aside), "%s" SETFILE_ASIDE, name);
	return rename_set(sets_fd, aside, name, err);
}

int pool_changeset_file_drop_aside(int sets_fd, const char *name, struct cairn_err *err)
{
	char aside[SETFILE_NAME_MAX + sizeof(SETFILE_ASIDE)];

	snprintf(aside, sizeof(aside), "%s" SETFILE_ASIDE, name);
	if (unlinkat(sets_fd, aside, 0) < 0 && errno != ENOENT)
		return cairn_err_sys(err, errno, "remove '%s'", aside);
	return cairn_sync_dir(sets_fd, aside, err);
}

static int changeset_file_flush(struct setfile_writer *writer, struct cairn_err *err)
{
	if (cairn_write_full(writer->fd, writer->buf, writer->len) < 0)
		return cairn_err_sys(err, errno, "write change set '%s'", writer->name);
	writer->len = 0;
	return 0;
}

static int write_bytes(void *arg, const void *data, size_t n, struct cairn_err *err)
{
	struct setfile_writer *writer = arg;
	const char *at = data;

	while (n > 0) {
		size_t part = WRITE_BUFFER - writer->len;

		part = n < part ? n : part;
		memcpy(writer->buf + writer->len, at, part);
		writer->len += part;
		at += part;
		n -= part;
		if (writer->len == WRITE_BUFFER) {
			int rc = changeset_file_flush(writer, err);

			if (rc)
				return rc;
		}
	}
	return 0;
}

int pool_changeset_file_writer_new(int sets_fd, const char *name, const struct block_set_info *info,
				   struct setfile_writer **ret, struct cairn_err *err)
{
	cairn_cleanup(pool_changeset_file_writer_freep) struct setfile_writer *writer =
		cairn_calloc(1, sizeof(*writer));
	struct block_output output = {.write = write_bytes, .arg = writer};
	int rc;

	if (!writer)
		return cairn_err_nomem(err, "change set");
	writer->sets_fd = sets_fd;
	writer->fd = -1;
	snprintf(writer->name, sizeof(writer->name), "%s", name);
	writer->fd = pool_owner_open(sets_fd, writer->name, O_WRONLY | O_TRUNC);
	if (writer->fd < 0)
		return cairn_err_sys(err, errno, "make change set '%s'", name);
	rc = block_set_writer_new(info, output, &writer->set, err);
	if (rc)
		return rc;
	*ret = cairn_take(writer);
	return 0;
}

void pool_changeset_file_writer_free(struct setfile_writer *writer)
{
	block_set_writer_freep(&writer->set);
	if (writer->fd >= 0) {
		close(writer->fd);
		if (!writer->finished)
			unlinkat(writer->sets_fd, writer->name, 0);
	}
	free(writer);
}

struct block_set_writer *pool_changeset_file_writer_set(struct setfile_writer *writer)
{
	return writer->set;
}

int pool_changeset_file_writer_finish(struct setfile_writer *writer,
				      struct block_set_info *ret_info, struct cairn_err *err)
{
	int rc = block_set_writer_finish(writer->set, ret_info, err);

	if (!rc)
		rc = changeset_file_flush(writer, err);
	if (rc)
		return rc;
	if (fsync(writer->fd) < 0)
		return cairn_err_sys(err, errno, "sync change set '%s'", writer->name);
	writer->finished = true;
	return cairn_sync_dir(writer->sets_fd, writer->name, err);
}
