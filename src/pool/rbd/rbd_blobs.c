/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_blobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_parts.h"
#include "pool/store/blob.h"

/* One request to a storage daemon. */
#define PART (1U << 20)

#define OBJECT_MAX 128

struct rbd_blobs {
	struct blobs base;
	struct rbd_cluster *cluster;
};

struct rbd_blob_writer {
	struct blob_writer base;
	struct rbd_cluster *cluster;
	char object[OBJECT_MAX];
	bool finished;
	uint64_t offset; /* of the buffer's first byte */
	size_t len;
	char buf[PART];
};

struct rbd_blob_reader {
	struct blob_reader base;
	struct rbd_cluster *cluster;
	char object[OBJECT_MAX];
	struct rbd_parts parts;
	char *whole; /* or NULL */
};

static struct rbd_cluster *blobs_cluster(const struct blobs *blobs)
{
	return ((const struct rbd_blobs *)blobs)->cluster;
}

static void blobs_object(const char *name, char object[OBJECT_MAX])
{
	snprintf(object, OBJECT_MAX, RBD_OBJECT_SET "%s", name);
}

static void rbd_blobs_close(struct blobs *blobs)
{
	free(blobs);
}

static const struct blob_ops rbd_blob_ops;

static int rbd_blob_create(struct blobs *blobs, const char *name, struct blob_writer **ret,
			   struct cairn_err *err)
{
	struct rbd_cluster *cluster = blobs_cluster(blobs);
	struct rbd_blob_writer *writer = cairn_alloc(sizeof(*writer));
	int rc;

	if (!writer)
		return cairn_err_nomem(err, "change set");
	writer->base.ops = &rbd_blob_ops;
	writer->cluster = cluster;
	writer->finished = false;
	writer->offset = writer->len = 0;
	blobs_object(name, writer->object);
	rc = rbd_parts_create(cluster, writer->object, err);
	if (rc) {
		free(writer);
		return rc;
	}
	*ret = &writer->base;
	return 0;
}

static int blob_flush(struct rbd_blob_writer *writer, struct cairn_err *err)
{
	int rc = rbd_parts_write(writer->cluster, writer->object, writer->offset, writer->buf,
				 writer->len, err);

	if (rc)
		return rc;
	writer->offset += writer->len;
	writer->len = 0;
	return 0;
}

static int rbd_blob_append(struct blob_writer *base, const void *data, size_t n,
			   struct cairn_err *err)
{
	struct rbd_blob_writer *writer = (struct rbd_blob_writer *)base;
	const char *at = data;

	while (n > 0) {
		size_t part = PART - writer->len;

		part = n < part ? n : part;
		memcpy(writer->buf + writer->len, at, part);
		writer->len += part;
		at += part;
		n -= part;
		if (writer->len == PART) {
			int rc = blob_flush(writer, err);

			if (rc)
				return rc;
		}
	}
	return 0;
}

static int rbd_blob_finish(struct blob_writer *base, struct cairn_err *err)
{
	struct rbd_blob_writer *writer = (struct rbd_blob_writer *)base;
	int rc = blob_flush(writer, err);

	writer->finished = rc == 0;
	return rc;
}

static void rbd_blob_writer_free(struct blob_writer *base)
{
	struct rbd_blob_writer *writer = (struct rbd_blob_writer *)base;

	if (!writer->finished)
		(void)rbd_parts_remove(writer->cluster, writer->object, NULL);
	free(writer);
}

static int rbd_blob_read(struct blob_reader *base, uint64_t offset, void *data, size_t n,
			 struct cairn_err *err)
{
	struct rbd_blob_reader *reader = (struct rbd_blob_reader *)base;

	if (reader->whole) {
		memcpy(data, reader->whole + offset, n);
		return 0;
	}
	return rbd_parts_read(reader->cluster, reader->object, &reader->parts, offset, data, n,
			      err);
}

static int blob_hold(struct rbd_blob_reader *reader, struct cairn_err *err)
{
	cairn_auto_free char *whole = cairn_alloc(reader->base.size + 1);
	int rc;

	if (!whole)
		return cairn_err_nomem(err, "change set");
	rc = rbd_blob_read(&reader->base, 0, whole, reader->base.size, err);
	if (!rc)
		reader->whole = cairn_take(whole);
	return rc;
}

static void rbd_blob_reader_free(struct blob_reader *base)
{
	free(((struct rbd_blob_reader *)base)->whole);
	free(base);
}

static int rbd_blob_open(struct blobs *blobs, const char *name, size_t whole_max,
			 struct blob_reader **ret, struct cairn_err *err)
{
	struct rbd_blob_reader *reader = cairn_calloc(1, sizeof(*reader));
	int rc;

	if (!reader)
		return cairn_err_nomem(err, "change set");
	reader->base.ops = &rbd_blob_ops;
	reader->cluster = blobs_cluster(blobs);
	blobs_object(name, reader->object);
	rc = rbd_parts_stat(reader->cluster, reader->object, &reader->parts, err);
	reader->base.size = reader->parts.size;
	if (!rc && reader->base.size <= whole_max)
		rc = blob_hold(reader, err);
	if (rc)
		rbd_blob_reader_free(&reader->base);
	else
		*ret = &reader->base;
	return rc;
}

static int rbd_blob_remove(struct blobs *blobs, const char *name, bool durable,
			   struct cairn_err *err)
{
	struct rbd_cluster *cluster = blobs_cluster(blobs);
	char object[OBJECT_MAX];

	(void)durable;
	blobs_object(name, object);
	return rbd_parts_remove(cluster, object, err);
}

static int rbd_blob_check(struct blobs *blobs, const char *name, struct cairn_err *err)
{
	char object[OBJECT_MAX];
	struct rbd_parts parts;

	blobs_object(name, object);
	return rbd_parts_stat(blobs_cluster(blobs), object, &parts, err);
}

/* RADOS has no rename: copies, and removes the old one when the copy is whole. */
static int rbd_blob_rename(struct blobs *blobs, const char *from, const char *to,
			   struct cairn_err *err)
{
	cairn_cleanup(pool_blob_reader_freep) struct blob_reader *reader = NULL;
	cairn_cleanup(pool_blob_writer_freep) struct blob_writer *writer = NULL;
	cairn_auto_free char *part = cairn_alloc(PART);
	int rc = rbd_blob_check(blobs, to, NULL);

	if (!part)
		return cairn_err_nomem(err, "change set");
	if (rc == 0)
		return cairn_err_set(err, CAIRN_EXISTS, "'%s' exists", to);
	if (rc != CAIRN_NOT_FOUND)
		return rbd_blob_check(blobs, to, err);
	rc = rbd_blob_open(blobs, from, 0, &reader, err);
	if (!rc)
		rc = rbd_blob_create(blobs, to, &writer, err);
	for (uint64_t at = 0; !rc && at < reader->size; at += PART) {
		size_t n = reader->size - at < PART ? (size_t)(reader->size - at) : PART;

		rc = pool_blob_read(reader, at, part, n, err);
		if (!rc)
			rc = pool_blob_append(writer, part, n, err);
	}
	if (!rc)
		rc = pool_blob_finish(writer, err);
	return rc ? rc : rbd_blob_remove(blobs, from, true, err);
}

static int rbd_blob_list(struct blobs *blobs,
			 int (*fn)(void *arg, const char *name, struct cairn_err *err), void *arg,
			 struct cairn_err *err)
{
	struct rbd_cluster *cluster = blobs_cluster(blobs);
	const struct rbd_api *api = rbd_cluster_api(cluster);
	const size_t skip = strlen(RBD_OBJECT_SET);
	rados_list_ctx_t list;
	const char *object;
	int end, rc = api->rados_nobjects_list_open(rbd_cluster_io(cluster), &list);

	if (rc < 0)
		return rbd_api_err(err, rc, "list the change sets");
	while ((end = api->rados_nobjects_list_next(list, &object, NULL, NULL)) == 0 && rc >= 0)
		if (strncmp(object, RBD_OBJECT_SET, skip) == 0 && !rbd_parts_is_later(object))
			rc = fn(arg, object + skip, err);
	api->rados_nobjects_list_close(list);
	if (rc >= 0 && end < 0 && end != -ENOENT)
		return rbd_api_err(err, end, "list the change sets");
	return rc < 0 ? rc : 0;
}

static const struct blob_ops rbd_blob_ops = {
	.name = "rados",
	.close = rbd_blobs_close,
	.create = rbd_blob_create,
	.append = rbd_blob_append,
	.finish = rbd_blob_finish,
	.writer_free = rbd_blob_writer_free,
	.open = rbd_blob_open,
	.read = rbd_blob_read,
	.reader_free = rbd_blob_reader_free,
	.remove = rbd_blob_remove,
	.check = rbd_blob_check,
	.rename = rbd_blob_rename,
	.list = rbd_blob_list,
};

int rbd_blobs_open(struct rbd_cluster *cluster, struct blobs **ret, struct cairn_err *err)
{
	struct rbd_blobs *blobs = cairn_calloc(1, sizeof(*blobs));

	if (!blobs)
		return cairn_err_nomem(err, "change sets");
	blobs->base.ops = &rbd_blob_ops;
	blobs->cluster = cluster;
	*ret = &blobs->base;
	return 0;
}
