/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/setfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

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

struct setfile_reader {
	int fd;
	char name[SETFILE_NAME_MAX];
	struct block_set_reader *set;
};

void setfile_name(uint64_t number, uint64_t generation, char out[SETFILE_NAME_MAX])
{
	snprintf(out, SETFILE_NAME_MAX, "set-%" PRIu64 "-%" PRIu64, number, generation);
}

static int flush(struct setfile_writer *writer, struct cairn_err *err)
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
			int rc = flush(writer, err);

			if (rc)
				return rc;
		}
	}
	return 0;
}

int setfile_writer_new(int sets_fd, const char *name, const struct block_set_info *info,
		       struct setfile_writer **ret, struct cairn_err *err)
{
	cairn_cleanup(setfile_writer_freep) struct setfile_writer *writer =
		cairn_calloc(1, sizeof(*writer));
	struct block_output output = {.write = write_bytes, .arg = writer};
	int rc;

	if (!writer)
		return cairn_err_nomem(err, "change set");
	writer->sets_fd = sets_fd;
	writer->fd = -1;
	snprintf(writer->name, sizeof(writer->name), "%s", name);
	writer->fd = openat(sets_fd, writer->name,
			    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (writer->fd < 0)
		return cairn_err_sys(err, errno, "make change set '%s'", name);
	rc = block_set_writer_new(info, output, &writer->set, err);
	if (rc)
		return rc;
	*ret = cairn_take(writer);
	return 0;
}

void setfile_writer_free(struct setfile_writer *writer)
{
	block_set_writer_freep(&writer->set);
	if (writer->fd >= 0) {
		close(writer->fd);
		if (!writer->finished)
			unlinkat(writer->sets_fd, writer->name, 0);
	}
	free(writer);
}

struct block_set_writer *setfile_writer_set(struct setfile_writer *writer)
{
	return writer->set;
}

int setfile_writer_finish(struct setfile_writer *writer, struct block_set_info *ret_info,
			  struct cairn_err *err)
{
	int rc = block_set_writer_finish(writer->set, ret_info, err);

	if (!rc)
		rc = flush(writer, err);
	if (rc)
		return rc;
	if (fsync(writer->fd) < 0)
		return cairn_err_sys(err, errno, "sync change set '%s'", writer->name);
	writer->finished = true;
	return cairn_sync_dir(writer->sets_fd, writer->name, err);
}

static int read_bytes(void *arg, uint64_t offset, void *data, size_t n, struct cairn_err *err)
{
	const struct setfile_reader *reader = arg;
	ssize_t got = cairn_pread_full(reader->fd, data, n, offset);

	if (got < 0)
		return cairn_err_sys(err, errno, "read change set '%s'", reader->name);
	if ((size_t)got != n)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "change set '%s' is truncated",
				     reader->name);
	return 0;
}

int setfile_reader_new(int sets_fd, const char *name, size_t buffer_size,
		       struct setfile_reader **ret, struct cairn_err *err)
{
	cairn_cleanup(setfile_reader_freep) struct setfile_reader *reader =
		cairn_calloc(1, sizeof(*reader));
	struct block_input input = {.read_at = read_bytes, .arg = reader};
	struct stat st;
	int rc;

	if (!reader)
		return cairn_err_nomem(err, "change set");
	snprintf(reader->name, sizeof(reader->name), "%s", name);
	reader->fd = openat(sets_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (reader->fd < 0)
		return cairn_err_sys(err, errno, "open change set '%s'", name);
	if (fstat(reader->fd, &st) < 0)
		return cairn_err_sys(err, errno, "stat change set '%s'", name);
	input.size = (uint64_t)st.st_size;
	rc = block_set_reader_new(input, buffer_size, &reader->set, err);
	if (rc)
		return cairn_err_wrap(err, "change set '%s'", name);
	*ret = cairn_take(reader);
	return 0;
}

void setfile_reader_free(struct setfile_reader *reader)
{
	block_set_reader_freep(&reader->set);
	if (reader->fd >= 0)
		close(reader->fd);
	free(reader);
}

struct block_set_reader *setfile_reader_set(struct setfile_reader *reader)
{
	return reader->set;
}

struct block_set_reader *setfile_reader_take(struct setfile_reader *reader)
{
	return cairn_take(reader->set);
}
