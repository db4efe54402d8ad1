/* SPDX-License-Identifier: Apache-2.0 */

#include "pool/rbd/rbd_omap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pool/rbd/rbd_cluster.h"

int rbd_omap_get(struct rbd_cluster *cluster, const char *object, const char *key, size_t key_len,
		 uint8_t **ret, size_t *ret_len, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(cluster);
	rados_read_op_t op = api->rados_create_read_op();
	rados_omap_iter_t iter = NULL;
	char *found_key = NULL, *value = NULL;
	size_t found_len = 0, n = 0;
	int part = 0, rc;
	uint8_t *copy;

	api->rados_read_op_omap_get_vals_by_keys2(op, &key, 1, &key_len, &iter, &part);
	rc = api->rados_read_op_operate(op, rbd_cluster_io(cluster), object, 0);
	if (rc >= 0)
		rc = part;
	if (rc >= 0)
		rc = api->rados_omap_get_next2(iter, &found_key, &value, &found_len, &n);
	if (rc >= 0 && !found_key)
		rc = -ENOENT;
	if (rc < 0) {
		rc = rc == -ENOENT ? cairn_err_set(err, CAIRN_NOT_FOUND,
						   "no such record in the catalogue")
				   : rbd_api_err(err, rc, "read '%s'", object);
	} else if (!(copy = cairn_alloc(n + 1))) {
		rc = cairn_err_nomem(err, "record");
	} else {
		if (n > 0)
			memcpy(copy, value, n);
		copy[n] = 0;
		*ret = copy;
		*ret_len = n;
		rc = 0;
	}
	if (iter)
		api->rados_omap_get_end(iter);
	api->rados_release_read_op(op);
	return rc;
}

int rbd_omap_each(struct rbd_cluster *cluster, const char *object, const char *prefix,
		  int (*fn)(void *arg, const char *key, const char *value, size_t n,
			    struct cairn_err *err),
		  void *arg, struct cairn_err *err)
{
	const struct rbd_api *api = rbd_cluster_api(cluster);
	char after[512] = "";
	unsigned char more = 1;
	int rc = 0;

	while (more && !rc) {
		rados_read_op_t op = api->rados_create_read_op();
		rados_omap_iter_t iter = NULL;
		char *key = NULL, *value = NULL;
		size_t key_len, n;
		int part = 0;

		api->rados_read_op_omap_get_vals2(op, after, prefix, 512, &iter, &more, &part);
		rc = api->rados_read_op_operate(op, rbd_cluster_io(cluster), object, 0);
		rc = rc < 0 ? rc : part;
		if (rc == -ENOENT)
			rc = 0, more = 0;
		else if (rc < 0)
			rc = rbd_api_err(err, rc, "read '%s'", object);
		while (iter && !rc &&
		       api->rados_omap_get_next2(iter, &key, &value, &key_len, &n) >= 0 && key) {
			snprintf(after, sizeof(after), "%.*s", (int)key_len, key);
			rc = fn(arg, after, value, n, err);
		}
		if (iter)
			api->rados_omap_get_end(iter);
		api->rados_release_read_op(op);
	}
	return rc;
}
