/* SPDX-License-Identifier: Apache-2.0 */

/* Reading volumes and snapshots through librbd. */

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/rbd/rbd_image.h"
#include "pool/rbd/rbd_store_impl.h"

struct rbd_reader {
	struct store_reader base;
	struct rbd_image_handle handle;
	uint64_t size;
};

static int rbd_reader_read(struct store_reader *base, uint64_t offset, void *buf, size_t n,
			   size_t *ret_n, struct cairn_err *err)
{
	struct rbd_reader *reader = (struct rbd_reader *)base;
	size_t have = offset >= reader->size      ? 0
		      : reader->size - offset < n ? (size_t)(reader->size - offset)
						  : n;
	ssize_t got;

	if (have == 0) {
		*ret_n = 0;
		return 0;
	}
	got = reader->handle.api->rbd_read2(reader->handle.image, offset, have, buf,
					    LIBRADOS_OP_FLAG_FADVISE_DONTNEED);
	if (got < 0)
		return rbd_api_err(err, (int)got, "read image '%s'", reader->handle.name);
	if ((size_t)got != have)
		return cairn_err_set(err, CAIRN_DATA_LOSS, "image '%s' is cut short",
				     reader->handle.name);
	*ret_n = have;
	return 0;
}

static void rbd_reader_free(struct store_reader *base)
{
	struct rbd_reader *reader = (struct rbd_reader *)base;

	rbd_image_done(&reader->handle);
	free(reader);
}

static const struct store_reader_ops rbd_reader_ops = {
	.read = rbd_reader_read,
	.free = rbd_reader_free,
};

int rbd_store_reader_open(struct store *store, struct store_ref ref, struct store_reader **ret,
			  struct cairn_err *err)
{
	struct rbd_reader *reader = cairn_calloc(1, sizeof(*reader));
	int rc;

	if (!reader)
		return cairn_err_nomem(err, "reader");
	reader->base.ops = &rbd_reader_ops;
	rc = rbd_image_open_ref(rbd_store_cluster(store), ref, &reader->handle, err);
	if (!rc) {
		rc = reader->handle.api->rbd_get_size(reader->handle.image, &reader->size);
		rc = rc < 0 ? rbd_api_err(err, rc, "size of '%s'", ref.id) : 0;
	}
	if (rc)
		rbd_reader_free(&reader->base);
	else
		*ret = &reader->base;
	return rc;
}
