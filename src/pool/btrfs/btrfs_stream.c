/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/btrfs/btrfs_stream.h"

#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/btrfs/crc32c.h"

#define MAGIC        "btrfs-stream" /* with its NUL */
#define HEADER_SIZE  (sizeof(MAGIC) + 4)
#define COMMAND_HEAD 10U
#define ATTR_HEAD    4U

#define VERSION_MAX 2U

enum command {
	CMD_SUBVOL = 1,
	CMD_SNAPSHOT = 2,
	CMD_SET_XATTR = 13,
	CMD_REMOVE_XATTR = 14,
	CMD_WRITE = 15,
	CMD_CLONE = 16,
	CMD_TRUNCATE = 17,
	CMD_CHMOD = 18,
	CMD_CHOWN = 19,
	CMD_UTIMES = 20,
	CMD_END = 21,
	CMD_UPDATE_EXTENT = 22,
	CMD_FALLOCATE = 23,
	CMD_FILEATTR = 24,
	CMD_ENCODED_WRITE = 25,
};

enum attr {
	ATTR_SIZE = 4,
	ATTR_PATH = 15,
	ATTR_FILE_OFFSET = 18,
	ATTR_DATA = 19,
	ATTR_CLONE_LEN = 24,
	ATTR_UNENCODED_FILE_LEN = 27,
	ATTR_MAX = 32,
};

struct stream {
	const char *path;
	struct stream_sink sink;
	bool header_seen;
	bool ended;
	uint32_t version;
	size_t have; /* bytes in `buf` */
	uint8_t buf[COMMAND_HEAD + STREAM_COMMAND_MAX];
};

/* The attributes of one command, by number; absent ones have no data. */
struct attrs {
	const uint8_t *data[ATTR_MAX];
	size_t len[ATTR_MAX];
};

static uint64_t btrfs_stream_le(const uint8_t *p, unsigned n)
{
	uint64_t value = 0;

	while (n-- > 0)
		value = value << 8 | p[n];
	return value;
}

int btrfs_stream_new(const char *path, struct stream_sink sink, struct stream **ret,
		     struct cairn_err *err)
{
	struct stream *s = cairn_alloc(sizeof(*s));

	if (!s)
		return cairn_err_nomem(err, "send stream");
	s->path = path;
	s->sink = sink;
	s->header_seen = s->ended = false;
	s->version = 0;
	s->have = 0;
	*ret = s;
	return 0;
}

void btrfs_stream_free(struct stream *stream)
{
	free(stream);
}

bool btrfs_stream_ended(const struct stream *stream)
{
	return stream->ended;
}

static int btrfs_stream_broken(const char *what, struct cairn_err *err)
{
	return cairn_err_set(err, CAIRN_DATA_LOSS, "send stream: %s", what);
}

static int parse_attrs(const struct stream *s, const uint8_t *p, size_t n, struct attrs *ret,
		       struct cairn_err *err)
{
	memset(ret, 0, sizeof(*ret));
	while (n > 0) {
		size_t head = ATTR_HEAD, len, type;

		if (n < 2)
			return btrfs_stream_broken("half an attribute", err);
		type = (size_t)btrfs_stream_le(p, 2);
		/* From version 2 on, file data extends to the end of the command
		 * and has no length. */
		if (type == ATTR_DATA && s->version >= 2) {
			head = 2;
			len = n - head;
		} else {
			if (n < ATTR_HEAD)
				return btrfs_stream_broken("half an attribute", err);
			len = (size_t)btrfs_stream_le(p + 2, 2);
		}
		if (len > n - head)
			return btrfs_stream_broken("an attribute passes the end of its command",
						   err);
		if (type < ATTR_MAX) {
			ret->data[type] = p + head;
			ret->len[type] = len;
		}
		p += head + len;
		n -= head + len;
	}
	return 0;
}

static bool attr_u64(const struct attrs *attrs, enum attr attr, uint64_t *ret)
{
	if (!attrs->data[attr] || attrs->len[attr] != 8)
		return false;
	*ret = btrfs_stream_le(attrs->data[attr], 8);
	return true;
}

/* A command that changes bytes: reports the range if it is our file's. */
static int btrfs_stream_changed(struct stream *s, const struct attrs *attrs, enum attr length_attr,
				struct cairn_err *err)
{
	size_t want = strlen(s->path);
	uint64_t offset, length, end;

	if (!attrs->data[ATTR_PATH])
		return btrfs_stream_broken("a command without path", err);
	if (attrs->len[ATTR_PATH] != want || memcmp(attrs->data[ATTR_PATH], s->path, want) != 0)
		return 0;
	if (!attr_u64(attrs, ATTR_FILE_OFFSET, &offset))
		return btrfs_stream_broken("a change without offset", err);
	if (length_attr == ATTR_DATA && attrs->data[ATTR_DATA])
		length = attrs->len[ATTR_DATA];
	else if (!attr_u64(attrs, length_attr, &length))
		return btrfs_stream_broken("a change without length", err);
	if (__builtin_add_overflow(offset, length, &end))
		return btrfs_stream_broken("a change passes the end of the address space", err);
	return length > 0 ? s->sink.range(s->sink.arg, offset, length, err) : 0;
}

static int btrfs_stream_run_command(struct stream *s, unsigned command, const struct attrs *attrs,
				    struct cairn_err *err)
{
	switch (command) {
	case CMD_WRITE:
		return btrfs_stream_changed(s, attrs, ATTR_DATA, err);
	case CMD_CLONE:
		return btrfs_stream_changed(s, attrs, ATTR_CLONE_LEN, err);
	case CMD_UPDATE_EXTENT:
	case CMD_FALLOCATE:
		return btrfs_stream_changed(s, attrs, ATTR_SIZE, err);
	case CMD_ENCODED_WRITE:
		return btrfs_stream_changed(s, attrs, ATTR_UNENCODED_FILE_LEN, err);
	case CMD_TRUNCATE: /* the caller knows both sizes */
	case CMD_SUBVOL:
	case CMD_SNAPSHOT:
	case CMD_SET_XATTR:
	case CMD_REMOVE_XATTR:
	case CMD_CHMOD:
	case CMD_CHOWN:
	case CMD_UTIMES:
	case CMD_FILEATTR:
		return 0;
	case CMD_END:
		s->ended = true;
		return 0;
	default:
		return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "send stream: command %u", command);
	}
}

/* The checksum covers the command with its own field as zeros. */
static bool crc_fits(const uint8_t *command, size_t n)
{
	static const uint8_t zeros[4];
	uint32_t crc = btrfs_crc32c_raw(0, command, 6);

	crc = btrfs_crc32c_raw(crc, zeros, sizeof(zeros));
	crc = btrfs_crc32c_raw(crc, command + COMMAND_HEAD, n - COMMAND_HEAD);
	return crc == (uint32_t)btrfs_stream_le(command + 6, 4);
}

/* Processes the bytes at `p`; *ret_used == 0 when more are needed. */
static int btrfs_stream_step(struct stream *s, const uint8_t *p, size_t n, size_t *ret_used,
			     struct cairn_err *err)
{
	struct attrs attrs;
	uint64_t len;
	int rc;

	*ret_used = 0;
	if (s->ended)
		return btrfs_stream_broken("bytes after its end", err);
	if (!s->header_seen) {
		if (n < HEADER_SIZE)
			return 0;
		if (memcmp(p, MAGIC, sizeof(MAGIC)) != 0)
			return btrfs_stream_broken("no header", err);
		s->version = (uint32_t)btrfs_stream_le(p + sizeof(MAGIC), 4);
		if (s->version == 0 || s->version > VERSION_MAX)
			return cairn_err_set(err, CAIRN_UNIMPLEMENTED, "send stream: version %u",
					     s->version);
		s->header_seen = true;
		*ret_used = HEADER_SIZE;
		return 0;
	}
	if (n < COMMAND_HEAD)
		return 0;
	len = btrfs_stream_le(p, 4);
	if (len > STREAM_COMMAND_MAX)
		return btrfs_stream_broken("a command is too long", err);
	if (n < COMMAND_HEAD + len)
		return 0;
	if (!crc_fits(p, COMMAND_HEAD + (size_t)len))
		return btrfs_stream_broken("a checksum is wrong", err);
	rc = parse_attrs(s, p + COMMAND_HEAD, (size_t)len, &attrs, err);
	rc = rc ? rc
		: btrfs_stream_run_command(s, (unsigned)btrfs_stream_le(p + 4, 2), &attrs, err);
	*ret_used = COMMAND_HEAD + (size_t)len;
	return rc;
}

/* Processes complete commands in [p, p + n); *ret_used is the number of bytes
 * consumed. */
static int btrfs_stream_drain(struct stream *s, const uint8_t *p, size_t n, size_t *ret_used,
			      struct cairn_err *err)
{
	size_t used = 0;

	while (used < n) {
		size_t one;
		int rc = btrfs_stream_step(s, p + used, n - used, &one, err);

		if (rc)
			return rc;
		if (one == 0)
			break;
		used += one;
	}
	*ret_used = used;
	return 0;
}

int btrfs_stream_feed(struct stream *stream, const void *data, size_t n, struct cairn_err *err)
{
	const uint8_t *p = data;

	while (n > 0) {
		size_t room = sizeof(stream->buf) - stream->have, used = 0;
		size_t take = n < room ? n : room;
		int rc;

		memcpy(stream->buf + stream->have, p, take);
		stream->have += take;
		p += take;
		n -= take;
		rc = btrfs_stream_drain(stream, stream->buf, stream->have, &used, err);
		if (rc)
			return rc;
		memmove(stream->buf, stream->buf + used, stream->have - used);
		stream->have -= used;
	}
	return 0;
}
