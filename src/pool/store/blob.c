/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/store/blob.h"

#include "base/err.h"

void pool_blobs_close(struct blobs *blobs)
{
	if (blobs)
		blobs->ops->close(blobs);
}

int pool_blob_create(struct blobs *blobs, const char *name, struct blob_writer **ret,
		     struct cairn_err *err)
{
	return blobs->ops->create(blobs, name, ret, err);
}

int pool_blob_append(struct blob_writer *writer, const void *data, size_t n, struct cairn_err *err)
{
	return writer->ops->append(writer, data, n, err);
}

int pool_blob_finish(struct blob_writer *writer, struct cairn_err *err)
{
	return writer->ops->finish(writer, err);
}

void pool_blob_writer_free(struct blob_writer *writer)
{
	if (writer)
		writer->ops->writer_free(writer);
}

int pool_blob_open(struct blobs *blobs, const char *name, size_t whole_max,
		   struct blob_reader **ret, struct cairn_err *err)
{
	return blobs->ops->open(blobs, name, whole_max, ret, err);
}

int pool_blob_read(struct blob_reader *reader, uint64_t offset, void *data, size_t n,
		   struct cairn_err *err)
{
	if (offset > reader->size || n > reader->size - offset)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "it is truncated");
	return reader->ops->read(reader, offset, data, n, err);
}

void pool_blob_reader_free(struct blob_reader *reader)
{
	if (reader)
		reader->ops->reader_free(reader);
}

int pool_blob_remove(struct blobs *blobs, const char *name, bool durable, struct cairn_err *err)
{
	return blobs->ops->remove(blobs, name, durable, err);
}

int pool_blob_check(struct blobs *blobs, const char *name, struct cairn_err *err)
{
	return blobs->ops->check(blobs, name, err);
}

int pool_blob_rename(struct blobs *blobs, const char *from, const char *to, struct cairn_err *err)
{
	return blobs->ops->rename(blobs, from, to, err);
}

int pool_blob_list(struct blobs *blobs,
		   int (*fn)(void *arg, const char *name, struct cairn_err *err), void *arg,
		   struct cairn_err *err)
{
	return blobs->ops->list(blobs, fn, arg, err);
}
