/* SPDX-License-Identifier: Apache-2.0 */

/* What the files share that implement rbd_catalogue.h. */
#ifndef CAIRN_POOL_RBD_CATALOGUE_IMPL_H
#define CAIRN_POOL_RBD_CATALOGUE_IMPL_H

#include <stdatomic.h>
#include <stddef.h>

#include "pool/catalogue/catalogue_ops.h"

struct cairn_err;
struct rbd_cluster;

#define RBD_CATALOGUE_BYTES_MAX (512U << 20)

struct rbd_catalogue {
	struct catalogue base;
	struct rbd_cluster *cluster;
	atomic_bool uncertain;
};

/* A pair in a buffer: this, the key and the stored value. */
struct row_head {
	size_t key_len, value_len;
};

/* A key of the catalogue as a key of the omap. */
struct omap_key {
	char text[CATALOGUE_KEY_MAX + 2];
	size_t len;
};

struct omap_key rbd_catalogue_key(struct catalogue_bytes key);
struct rbd_catalogue *rbd_catalogue_of(struct catalogue *base);

/* The slot `scan` of struct catalogue_ops: pages of one version of the catalogue. */
int rbd_catalogue_scan(struct catalogue *base, struct catalogue_bytes prefix,
		       struct catalogue_bytes after,
		       int (*fn)(void *arg, struct catalogue_bytes key,
				 struct catalogue_bytes value, bool damaged, struct cairn_err *err),
		       void *arg, struct cairn_err *err);

#endif
