/* SPDX-License-Identifier: Apache-2.0 */

#include "net/grpc/gunzip.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/stream.h"

#define GZIP_WINDOW (15 + 16) /* tells zlib to expect the gzip wrapper */
#define FIRST_ROOM  (4U << 10)

static bool double_room(struct net_msg **msg, size_t max)
{
	size_t cap = (*msg)->cap ? (*msg)->cap * 2 : FIRST_ROOM;
	struct net_msg *bigger;

	if (cap > max)
		cap = max;
	bigger = cairn_realloc_array(*msg, sizeof(*bigger) + cap, 1);
	if (!bigger)
		return false;
	bigger->cap = cap;
	*msg = bigger;
	return true;
}

/* zlib's result, or Z_BUF_ERROR when the text would pass `max`. */
static int inflate_all(z_stream *z, struct net_msg **msg, size_t max)
{
	for (;;) {
		int rc;

		if ((*msg)->len == (*msg)->cap) {
			uint8_t one;

			if ((*msg)->cap < max) {
				if (!double_room(msg, max))
					return Z_MEM_ERROR;
				continue;
			}
			/* The buffer is full: inflate into one spare byte, to tell the end
			 * of the text from text beyond `max`. */
			z->next_out = &one;
			z->avail_out = 1;
			rc = inflate(z, Z_NO_FLUSH);
			z->next_out = NULL;
			if (z->avail_out == 0)
				return Z_BUF_ERROR;
			return rc == Z_STREAM_END ? rc : Z_DATA_ERROR;
		}
		z->next_out = (*msg)->data + (*msg)->len;
		z->avail_out = (uInt)((*msg)->cap - (*msg)->len);
		rc = inflate(z, Z_NO_FLUSH);
		(*msg)->len = (*msg)->cap - z->avail_out;
		if (rc == Z_BUF_ERROR || (rc == Z_OK && z->avail_in == 0 && z->avail_out > 0))
			return Z_DATA_ERROR; /* the input is truncated */
		if (rc != Z_OK)
			return rc;
	}
}

int net_gunzip(const uint8_t *data, size_t n, size_t max, struct net_msg **ret,
	       struct cairn_err *err)
{
	cairn_auto_free struct net_msg *msg = net_msg_new(FIRST_ROOM < max ? FIRST_ROOM : max);
	z_stream z = {0};
	int rc;

	if (!msg || inflateInit2(&z, GZIP_WINDOW) != Z_OK)
		return cairn_err_nomem(err, "decompressed message");
	z.next_in = (Bytef *)(uintptr_t)data;
	z.avail_in = (uInt)n;
	rc = inflate_all(&z, &msg, max);
	if (rc == Z_STREAM_END && z.avail_in > 0)
		rc = Z_DATA_ERROR;
	inflateEnd(&z);
	if (rc == Z_BUF_ERROR)
		return cairn_err_set(err, CAIRN_NO_SPACE,
				     "the decompressed message is larger than %zu bytes", max);
	if (rc == Z_MEM_ERROR)
		return cairn_err_nomem(err, "decompressed message");
	if (rc != Z_STREAM_END)
		return cairn_err_set(err, CAIRN_INTERNAL,
				     "a compressed message is not in gzip format");
	*ret = cairn_take(msg);
	return 0;
}

int net_gunzip_current(struct net_stream *stream, struct cairn_err *err)
{
	struct net_msg *msg;
	int rc = net_gunzip(stream->current->data, stream->current->len, stream->deframer.max, &msg,
			    err);

	if (rc == 0)
		net_stream_replace_current(stream, msg);
	return rc;
}
