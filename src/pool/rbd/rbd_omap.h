/* SPDX-License-Identifier: Apache-2.0 */

/* Pairs in the omap of the pool's objects. */
#ifndef CAIRN_POOL_RBD_OMAP_H
#define CAIRN_POOL_RBD_OMAP_H

#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct rbd_cluster;

/* The value of one key of an object's omap, owned by the caller and with one NUL byte beyond
 * *ret_len. CAIRN_NOT_FOUND: no such object or key. */
int rbd_omap_get(struct rbd_cluster *cluster, const char *object, const char *key, size_t key_len,
		 uint8_t **ret, size_t *ret_len, struct cairn_err *err);

/* Calls `fn` for the pairs of one object under a prefix, page by page. A pair that is added
 * or removed meanwhile may be seen or not; an object that does not exist has none. */
int rbd_omap_each(struct rbd_cluster *cluster, const char *object, const char *prefix,
		  int (*fn)(void *arg, const char *key, const char *value, size_t n,
			    struct cairn_err *err),
		  void *arg, struct cairn_err *err);

#endif
