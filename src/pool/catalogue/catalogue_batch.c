/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/catalogue/catalogue.h"

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_ops.h"

/* Stops a caller's loop from taking all memory. */
#define BATCH_BYTES_MAX (256U << 20)

int pool_catalogue_batch_new(struct catalogue *cat, struct catalogue_batch **ret,
			     struct cairn_err *err)
{
	struct catalogue_batch *batch = cairn_calloc(1, sizeof(*batch));

	if (!batch)
		return cairn_err_nomem(err, "catalogue batch");
	batch->cat = cat;
	cairn_buf_init(&batch->ops, BATCH_BYTES_MAX);
	*ret = batch;
	return 0;
}

void pool_catalogue_batch_free(struct catalogue_batch *batch)
{
	if (!batch)
		return;
	cairn_buf_done(&batch->ops);
	free(batch);
}

static void add_op(struct catalogue_batch *batch, enum batch_op_kind kind,
		   struct catalogue_bytes key, struct catalogue_bytes value)
{
	struct batch_op op = {kind, key.len, value.len};
	uint8_t sum[CATALOGUE_SUM_LEN];

	if (batch->failed.code != 0)
		return;
	if (key.len == 0 || key.len > CATALOGUE_KEY_MAX || value.len > CATALOGUE_VALUE_MAX) {
		cairn_err_set(&batch->failed, CAIRN_INVALID,
			      "catalogue: a key of %zu bytes with a value of %zu", key.len,
			      value.len);
		return;
	}
	if (kind == BATCH_PUT)
		op.value_len += sizeof(sum);
	cairn_buf_add(&batch->ops, &op, sizeof(op));
	cairn_buf_add(&batch->ops, key.data, key.len);
	if (kind == BATCH_PUT) {
		pool_catalogue_checksum(key, value, sum);
		cairn_buf_add(&batch->ops, sum, sizeof(sum));
	}
	cairn_buf_add(&batch->ops, value.data, value.len);
	if (cairn_buf_failed(&batch->ops))
		cairn_err_nomem(&batch->failed, "catalogue batch");
}

void pool_catalogue_put(struct catalogue_batch *batch, struct catalogue_bytes key,
			struct catalogue_bytes value)
{
	add_op(batch, BATCH_PUT, key, value);
}

void pool_catalogue_delete(struct catalogue_batch *batch, struct catalogue_bytes key)
{
	add_op(batch, BATCH_DELETE, key, (struct catalogue_bytes){NULL, 0});
}

void pool_catalogue_expect(struct catalogue_batch *batch, struct catalogue_bytes key,
			   struct catalogue_bytes value)
{
	add_op(batch, value.data ? BATCH_EXPECT : BATCH_EXPECT_ABSENT, key, value);
}

void pool_catalogue_expect_stored(struct catalogue_batch *batch, struct catalogue_bytes key,
				  struct catalogue_bytes stored)
{
	add_op(batch, BATCH_EXPECT_STORED, key, stored);
}

void pool_catalogue_batch_fail(struct catalogue_batch *batch, const char *what)
{
	if (batch->failed.code == 0)
		cairn_err_nomem(&batch->failed, what);
}

void pool_catalogue_batch_late(struct catalogue_batch *batch, catalogue_late_fn *fn, void *arg)
{
	batch->late = fn;
	batch->late_arg = arg;
}

int pool_catalogue_batch_get(struct catalogue_batch *batch, struct catalogue_bytes key,
			     uint8_t **ret_data, size_t *ret_len, struct cairn_err *err)
{
	return batch->cat->ops->batch_get(batch, key, ret_data, ret_len, err);
}

int pool_catalogue_batch_run_late(struct catalogue_batch *batch, void *transaction,
				  struct cairn_err *err)
{
	int rc;

	if (!batch->late)
		return 0;
	batch->transaction = transaction;
	rc = batch->late(batch->late_arg, batch, err);
	batch->transaction = NULL;
	if (rc == 0 && batch->failed.code != 0) {
		*err = batch->failed;
		rc = err->code;
	}
	return rc;
}
