/* SPDX-License-Identifier: Apache-2.0 */

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "pool/rbd/rbd_catalogue_impl.h"
#include "pool/rbd/rbd_cluster.h"

/* Each failed try means that another process has committed. */
#define SCAN_TRIES   200U
#define PAUSE_MAX_MS 20U
#define SCAN_PAGE    1024U

struct omap_scan {
	struct rbd_catalogue *cat;
	struct omap_key prefix;
	struct omap_key after;
	uint64_t version; /* of the first page */
	bool more;
	struct cairn_buf rows;
};

static int scan_keep_rows(struct omap_scan *scan, rados_omap_iter_t iter, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(scan->cat->cluster);
	char *key = NULL, *value = NULL;
	struct row_head head;

	while (api->rados_omap_get_next2(iter, &key, &value, &head.key_len, &head.value_len) >= 0 &&
	       key) {
		if (head.key_len < 1 || head.key_len > CATALOGUE_KEY_MAX + 1)
			return cairn_err_set(err, CAIRN_DATA_LOSS, "catalogue: a damaged key");
		memcpy(scan->after.text, key, head.key_len);
		scan->after.len = head.key_len;
		scan->after.text[head.key_len] = '\0';
		cairn_buf_add(&scan->rows, &head, sizeof(head));
		cairn_buf_add(&scan->rows, key, head.key_len);
		cairn_buf_add(&scan->rows, value, head.value_len);
	}
	return cairn_buf_failed(&scan->rows) ? cairn_err_nomem(err, "catalogue scan") : 0;
}

/* *ret_changed: a commit came in between, and nothing was kept. */
static int scan_page(struct omap_scan *scan, bool *ret_changed, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(scan->cat->cluster);
	rados_read_op_t op = api->rados_create_read_op();
	rados_omap_iter_t iter = NULL;
	rados_completion_t done = NULL;
	unsigned char more = 0;
	int part = 0, rc;

	if (scan->version)
		api->rados_read_op_assert_version(op, scan->version);
	api->rados_read_op_omap_get_vals2(op, scan->after.text, scan->prefix.text, SCAN_PAGE, &iter,
					  &more, &part);
	rc = api->rados_aio_create_completion2(NULL, NULL, &done);
	if (rc >= 0)
		rc = api->rados_aio_read_op_operate(op, rbd_cluster_io(scan->cat->cluster), done,
						    RBD_OBJECT_CATALOGUE, 0);
	if (rc >= 0) {
		api->rados_aio_wait_for_complete(done);
		rc = api->rados_aio_get_return_value(done);
	}
	rc = rc < 0 ? rc : part;
	*ret_changed = scan->version && (rc == -ERANGE || rc == -EOVERFLOW);
	if (!scan->version && rc >= 0)
		scan->version = api->rados_aio_get_version(done);
	scan->more = more;
	if (*ret_changed)
		rc = 0;
	else
		rc = rc < 0 ? rbd_api_err(err, rc, "read the catalogue")
			    : scan_keep_rows(scan, iter, err);
	if (iter)
		api->rados_omap_get_end(iter);
	if (done)
		api->rados_aio_release(done);
	api->rados_release_read_op(op);
	return rc;
}

static int scan_collect(struct omap_scan *scan, struct catalogue_bytes after, struct cairn_err *err)
{
	for (unsigned i = 0; i < SCAN_TRIES; i++) {
		bool changed = false;
		int rc = 0;

		cairn_buf_reset(&scan->rows);
		scan->after =
			after.len > 0 ? rbd_catalogue_key(after) : (struct omap_key){.len = 0};
		scan->version = 0;
		scan->more = true;
		while (scan->more && !changed && !rc)
			rc = scan_page(scan, &changed, err);
		if (rc || !changed)
			return rc;
		cairn_sleep_ms(i < PAUSE_MAX_MS ? i : PAUSE_MAX_MS);
	}
	return cairn_err_set(err, CAIRN_UNAVAILABLE,
			     "the catalogue is changed by others all the time");
}

static int scan_deliver(const struct omap_scan *scan,
			int (*fn)(void *arg, struct catalogue_bytes key,
				  struct catalogue_bytes value, bool damaged,
				  struct cairn_err *err),
			void *arg, struct cairn_err *err)
{
	const uint8_t *p = scan->rows.data;
	const uint8_t *end = p ? p + scan->rows.len : p;
	struct row_head head;
	int rc = 0;

	while (p < end && !rc) {
		struct catalogue_bytes key, value = {NULL, 0};
		bool good;

		memcpy(&head, p, sizeof(head));
		p += sizeof(head);
		key = (struct catalogue_bytes){p + 1, head.key_len - 1};
		good = pool_catalogue_unwrap(
			key, (struct catalogue_bytes){p + head.key_len, head.value_len}, &value);
		rc = fn(arg, key, good ? value : (struct catalogue_bytes){NULL, 0}, !good, err);
		p += head.key_len + head.value_len;
	}
	return rc;
}

int rbd_catalogue_scan(struct catalogue *base, struct catalogue_bytes prefix,
		       struct catalogue_bytes after,
		       int (*fn)(void *arg, struct catalogue_bytes key,
				 struct catalogue_bytes value, bool damaged, struct cairn_err *err),
		       void *arg, struct cairn_err *err)
{
	struct omap_scan scan = {.cat = rbd_catalogue_of(base),
				 .prefix = rbd_catalogue_key(prefix)};
	int rc;

	cairn_buf_init(&scan.rows, RBD_CATALOGUE_BYTES_MAX);
	rc = scan_collect(&scan, after, err);
	if (!rc)
		rc = scan_deliver(&scan, fn, arg, err);
	cairn_buf_done(&scan.rows);
	return rc;
}
