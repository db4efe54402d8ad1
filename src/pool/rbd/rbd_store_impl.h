/* SPDX-License-Identifier: Apache-2.0 */

/* The members of the store and its slots, for the files that implement rbd_store.h. */
#ifndef CAIRN_POOL_RBD_STORE_IMPL_H
#define CAIRN_POOL_RBD_STORE_IMPL_H

#include <stdint.h>

#include "pool/store/store.h"

struct cairn_err;
struct rbd_cluster;

#define RBD_STORE_FEATURES                                                            \
	(RBD_FEATURE_LAYERING | RBD_FEATURE_EXCLUSIVE_LOCK | RBD_FEATURE_OBJECT_MAP | \
	 RBD_FEATURE_FAST_DIFF | RBD_FEATURE_DEEP_FLATTEN)

struct rbd_store {
	struct store base;
	struct rbd_cluster *cluster;
};

struct rbd_cluster *rbd_store_cluster(const struct store *store);

int rbd_store_rename_image(struct rbd_cluster *cluster, const char *from, const char *to,
			   struct cairn_err *err);

/* And the image, if it is an old one that nothing else needs. A missing one is not an error. */
int rbd_store_remove_snapshot(struct rbd_cluster *cluster, const char *id, struct cairn_err *err);

/* Slots of struct store_ops. */
int rbd_store_list(struct store *store, enum store_kind kind,
		   int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
		   struct cairn_err *err);
int rbd_store_list_aside(struct store *store, enum store_kind kind,
			 int (*fn)(void *arg, const char *id, struct cairn_err *err), void *arg,
			 struct cairn_err *err);
int rbd_store_set_aside(struct store *store, struct store_ref ref, struct cairn_err *err);
int rbd_store_bring_back(struct store *store, struct store_ref ref, struct cairn_err *err);
int rbd_store_drop_aside(struct store *store, struct store_ref ref, struct cairn_err *err);
int rbd_store_reader_open(struct store *store, struct store_ref ref, struct store_reader **ret,
			  struct cairn_err *err);
int rbd_store_volume_adopt(struct store *store, const char *id, const char *image,
			   uint64_t *ret_size, struct cairn_err *err);
int rbd_store_volume_disown(struct store *store, const char *id, const char *image,
			    struct cairn_err *err);

#endif
