/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_catalogue.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "pool/catalogue/catalogue_ops.h"
#include "pool/rbd/rbd_catalogue_impl.h"
#include "pool/rbd/rbd_cluster.h"
#include "pool/rbd/rbd_omap.h"

#define RECORD 'c'

/* Each failed try means that another process has committed. */
#define COMMIT_TRIES 1000U
#define PAUSE_MAX_MS 20U

/* A request counts its operations in 16 bits; late functions add a few. */
#define OPS_MAX 60000U

/* What a late function has read: a row_head, the key and the stored value each. */
struct transaction {
	struct rbd_catalogue *cat;
	struct cairn_buf reads;
};

struct rbd_catalogue *rbd_catalogue_of(struct catalogue *base)
{
	return (struct rbd_catalogue *)base;
}

struct omap_key rbd_catalogue_key(struct catalogue_bytes key)
{
	struct omap_key made = {.text = {RECORD}, .len = key.len + 1};

	if (key.len > 0)
		memcpy(made.text + 1, key.data, key.len);
	return made;
}

static void rbd_catalogue_close(struct catalogue *base)
{
	free(base);
}

/* Moves a record without its checksum to the caller. */
static int unwrap_taken(struct catalogue_bytes key, uint8_t **data, size_t len, uint8_t **ret_data,
			size_t *ret_len, struct cairn_err *err)
{
	struct catalogue_bytes value;

	if (!pool_catalogue_unwrap(key, (struct catalogue_bytes){*data, len}, &value))
		return cairn_err_set(err, CAIRN_DATA_LOSS,
				     "catalogue: a record does not fit its checksum");
	memmove(*data, value.data, value.len);
	(*data)[value.len] = 0;
	*ret_data = cairn_take(*data);
	*ret_len = value.len;
	return 0;
}

static int rbd_catalogue_get(struct catalogue *base, struct catalogue_bytes key, bool stored,
			     uint8_t **ret_data, size_t *ret_len, struct cairn_err *err)
{
	struct omap_key name = rbd_catalogue_key(key);
	cairn_auto_free uint8_t *data = NULL;
	size_t len = 0;
	int rc = rbd_omap_get(rbd_catalogue_of(base)->cluster, RBD_OBJECT_CATALOGUE, name.text,
			      name.len, &data, &len, err);

	if (rc)
		return rc;
	if (!stored)
		return unwrap_taken(key, &data, len, ret_data, ret_len, err);
	*ret_data = cairn_take(data);
	*ret_len = len;
	return 0;
}

static int rbd_catalogue_batch_get(struct catalogue_batch *batch, struct catalogue_bytes key,
				   uint8_t **ret_data, size_t *ret_len, struct cairn_err *err)
{
	struct transaction *transaction = batch->transaction;
	cairn_auto_free uint8_t *data = NULL;
	size_t len = 0;
	struct row_head head = {.key_len = key.len};
	int rc = rbd_catalogue_get(batch->cat, key, true, &data, &len, err);

	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	head.value_len = rc ? 0 : len;
	cairn_buf_add(&transaction->reads, &head, sizeof(head));
	cairn_buf_add(&transaction->reads, key.data, key.len);
	cairn_buf_add(&transaction->reads, data, head.value_len);
	if (cairn_buf_failed(&transaction->reads))
		return cairn_err_nomem(err, "catalogue batch");
	return rc ? rc : unwrap_taken(key, &data, len, ret_data, ret_len, err);
}

/* ---- commit ---------------------------------------------------------------- */

/* The bytes that an expectation wants to find: none when the key must be absent. */
static struct catalogue_bytes wanted_bytes(const struct batch_op *op, const uint8_t *key,
					   struct cairn_buf *scratch)
{
	struct catalogue_bytes value = {key + op->key_len, op->value_len};
	uint8_t sum[CATALOGUE_SUM_LEN];

	cairn_buf_reset(scratch);
	if (op->kind == BATCH_EXPECT) {
		pool_catalogue_checksum((struct catalogue_bytes){key, op->key_len}, value, sum);
		cairn_buf_add(scratch, sum, sizeof(sum));
	}
	if (op->kind != BATCH_EXPECT_ABSENT)
		cairn_buf_add(scratch, value.data, value.len);
	return (struct catalogue_bytes){scratch->data, scratch->len};
}

static void add_compare(const struct rbd_api *api, rados_write_op_t write,
			struct catalogue_bytes key, struct catalogue_bytes want)
{
	struct omap_key name = rbd_catalogue_key(key);

	api->rados_write_op_omap_cmp2(write, name.text, LIBRADOS_CMPXATTR_OP_EQ,
				      want.data ? want.data : "", name.len, want.len, NULL);
}

static void add_change(const struct rbd_api *api, rados_write_op_t write, const struct batch_op *op,
		       const uint8_t *bytes)
{
	struct omap_key name = rbd_catalogue_key((struct catalogue_bytes){bytes, op->key_len});
	const char *keys[] = {name.text};
	const char *values[] = {(const char *)bytes + op->key_len};

	if (op->kind == BATCH_PUT)
		api->rados_write_op_omap_set2(write, keys, values, &name.len, &op->value_len, 1);
	else
		api->rados_write_op_omap_rm_keys2(write, keys, &name.len, 1);
}

static void add_reads(const struct rbd_api *api, rados_write_op_t write,
		      const struct cairn_buf *reads)
{
	const uint8_t *p = reads->data;
	const uint8_t *end = p ? p + reads->len : p;
	struct row_head head;

	while (p < end) {
		memcpy(&head, p, sizeof(head));
		p += sizeof(head);
		add_compare(api, write, (struct catalogue_bytes){p, head.key_len},
			    (struct catalogue_bytes){p + head.key_len, head.value_len});
		p += head.key_len + head.value_len;
	}
}

/* Calls `fn` for each operation of the batch. */
static int each_op(const struct cairn_buf *ops,
		   int (*fn)(void *arg, const struct batch_op *op, const uint8_t *bytes,
			     struct cairn_err *err),
		   void *arg, struct cairn_err *err)
{
	const uint8_t *p = ops->data;
	const uint8_t *end = p ? p + ops->len : p;
	struct batch_op op;
	int rc = 0;

	while (p < end && !rc) {
		memcpy(&op, p, sizeof(op));
		p += sizeof(op);
		rc = fn(arg, &op, p, err);
		p += op.key_len + op.value_len;
	}
	return rc;
}

struct building {
	struct rbd_catalogue *cat;
	rados_write_op_t write;
	bool changes; /* the pass over changes; else over expectations */
	size_t n;     /* operations so far */
	struct cairn_buf scratch;
};

static int add_batch_op(void *arg, const struct batch_op *op, const uint8_t *bytes,
			struct cairn_err *err)
{
	struct building *building = arg;
	const struct rbd_api *api = rbd_cluster_api(building->cat->cluster);

	if (building->changes != pool_catalogue_op_changes(op->kind))
		return 0;
	if (++building->n > OPS_MAX)
		return cairn_err_set(
			err, CAIRN_RANGE,
			"too much for one commit to Ceph; delete snapshots one by one");
	if (building->changes)
		add_change(api, building->write, op, bytes);
	else
		add_compare(api, building->write, (struct catalogue_bytes){bytes, op->key_len},
			    wanted_bytes(op, bytes, &building->scratch));
	return cairn_buf_failed(&building->scratch) ? cairn_err_nomem(err, "catalogue batch") : 0;
}

/* CAIRN_ABORTED when an expectation does not hold. */
static int check_batch_op(void *arg, const struct batch_op *op, const uint8_t *bytes,
			  struct cairn_err *err)
{
	struct building *building = arg;
	struct catalogue_bytes key = {bytes, op->key_len}, want;
	cairn_auto_free uint8_t *have = NULL;
	size_t len = 0;
	int rc;

	if (pool_catalogue_op_changes(op->kind))
		return 0;
	want = wanted_bytes(op, bytes, &building->scratch);
	rc = rbd_catalogue_get(&building->cat->base, key, true, &have, &len, err);
	if (rc && rc != CAIRN_NOT_FOUND)
		return rc;
	if (len == want.len && (len == 0 || memcmp(have, want.data, len) == 0))
		return 0;
	return cairn_err_set(err, CAIRN_ABORTED, "another process changed the same record");
}

static int operate(struct rbd_catalogue *cat, struct catalogue_batch *batch,
		   const struct transaction *transaction, const char *session,
		   struct cairn_err *err, int *ret_sys)
{
	const struct rbd_api *api = rbd_cluster_api(cat->cluster);
	struct building building = {.cat = cat, .write = api->rados_create_write_op()};
	int rc;

	cairn_buf_init(&building.scratch, CATALOGUE_VALUE_MAX + CATALOGUE_SUM_LEN);
	api->rados_write_op_assert_exists(building.write);
	rbd_cluster_depend_on_session(building.write, cat->cluster, session);
	rc = each_op(&batch->ops, add_batch_op, &building, err);
	add_reads(api, building.write, &transaction->reads);
	building.changes = true;
	if (!rc)
		rc = each_op(&batch->ops, add_batch_op, &building, err);
	if (!rc)
		*ret_sys = api->rados_write_op_operate(building.write, rbd_cluster_io(cat->cluster),
						       RBD_OBJECT_CATALOGUE, NULL,
						       LIBRADOS_OPERATION_FULL_TRY);
	api->rados_release_write_op(building.write);
	cairn_buf_done(&building.scratch);
	return rc;
}

/* After a comparison failed: 0 when the batch should be tried again, because only what a
 * late function had read was changed. */
static int find_conflict(struct rbd_catalogue *cat, struct catalogue_batch *batch,
			 const char *session, struct cairn_err *err)
{
	struct building building = {.cat = cat};
	cairn_auto_free uint8_t *value = NULL;
	char key[RBD_SESSION_KEY_MAX] = "s";
	size_t n;
	int rc;

	memcpy(key + 1, session, strlen(session) + 1);
	rc = rbd_omap_get(cat->cluster, RBD_OBJECT_CATALOGUE, key, strlen(key), &value, &n, err);
	if (rc == CAIRN_NOT_FOUND)
		return cairn_err_set(err, CAIRN_UNAVAILABLE,
				     "this process was taken for dead and fenced; start it again");
	if (rc)
		return rc;
	cairn_buf_init(&building.scratch, CATALOGUE_VALUE_MAX + CATALOGUE_SUM_LEN);
	rc = each_op(&batch->ops, check_batch_op, &building, err);
	cairn_buf_done(&building.scratch);
	return rc;
}

static int commit_once(struct rbd_catalogue *cat, struct catalogue_batch *batch,
		       const char *session, bool *ret_again, struct cairn_err *err)
{
	struct transaction transaction = {.cat = cat};
	size_t len = batch->ops.len;
	int rc, sys = 0;

	*ret_again = false;
	cairn_buf_init(&transaction.reads, RBD_CATALOGUE_BYTES_MAX);
	rc = pool_catalogue_batch_run_late(batch, &transaction, err);
	if (!rc)
		rc = operate(cat, batch, &transaction, session, err, &sys);
	if (!rc && sys == -ECANCELED) {
		rc = find_conflict(cat, batch, session, err);
		*ret_again = rc == 0;
	} else if (!rc && sys < 0) {
		/* Whether it was carried out is known only if a daemon refused it. */
		if (sys == -ETIMEDOUT || sys == -ENOTCONN)
			atomic_store(&cat->uncertain, true);
		rc = rbd_api_err(err, sys, "commit to the catalogue");
	}
	cairn_buf_done(&transaction.reads);
	batch->ops.len = len;
	return rc;
}

static int rbd_catalogue_commit(struct catalogue_batch *batch, enum catalogue_sync sync,
				struct cairn_err *err)
{
	struct rbd_catalogue *cat = rbd_catalogue_of(batch->cat);
	const char *session = NULL;
	struct cairn_err local = {0};
	bool again = true;
	int rc = rbd_cluster_session(cat->cluster, &session, err);

	(void)sync; /* whatever RADOS acknowledges is durable */
	if (rc)
		return rc;
	for (unsigned i = 0; i < COMMIT_TRIES && again; i++) {
		rc = commit_once(cat, batch, session, &again, &local);
		if (again)
			cairn_sleep_ms(i < PAUSE_MAX_MS ? i : PAUSE_MAX_MS);
	}
	if (again)
		rc = cairn_err_set(&local, CAIRN_UNAVAILABLE,
				   "the catalogue is changed by others all the time");
	if (rc && err)
		*err = local;
	return rc;
}

static bool rbd_catalogue_is_certain(struct catalogue *base)
{
	return !atomic_load(&rbd_catalogue_of(base)->uncertain);
}

/* RADOS checks its own structure; records are checked where they are read. */
static int rbd_catalogue_check(struct catalogue *base, void (*report)(void *arg, const char *line),
			       void *arg, struct cairn_err *err)
{
	struct rbd_catalogue *cat = rbd_catalogue_of(base);
	uint64_t size;
	time_t when;
	int rc = rbd_cluster_api(cat->cluster)
			 ->rados_stat(rbd_cluster_io(cat->cluster), RBD_OBJECT_CATALOGUE, &size,
				      &when);

	if (rc == -ENOENT) {
		report(arg, "catalogue: its object is missing");
		return 0;
	}
	return rc < 0 ? rbd_api_err(err, rc, "catalogue") : 0;
}

static const struct catalogue_ops rbd_catalogue_ops = {
	.name = "rados",
	.always_durable = true,
	.close = rbd_catalogue_close,
	.get = rbd_catalogue_get,
	.scan = rbd_catalogue_scan,
	.batch_get = rbd_catalogue_batch_get,
	.commit = rbd_catalogue_commit,
	.is_certain = rbd_catalogue_is_certain,
	.check = rbd_catalogue_check,
};

int rbd_catalogue_create(struct rbd_cluster *cluster, struct cairn_err *err)
{
	int rc = rbd_cluster_api(cluster)->rados_write_full(rbd_cluster_io(cluster),
							    RBD_OBJECT_CATALOGUE, "", 0);

	return rc < 0 ? rbd_api_err(err, rc, "make the catalogue") : 0;
}

int rbd_catalogue_open(struct rbd_cluster *cluster, bool writable, struct catalogue **ret,
		       struct cairn_err *err)
{
	struct rbd_catalogue *cat = cairn_calloc(1, sizeof(*cat));

	if (!cat)
		return cairn_err_nomem(err, "catalogue");
	cat->base.ops = &rbd_catalogue_ops;
	cat->base.writable = writable;
	cat->cluster = cluster;
	*ret = &cat->base;
	return 0;
}
