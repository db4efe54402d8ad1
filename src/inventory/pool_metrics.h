/* SPDX-License-Identifier: Apache-2.0 */

/* The space of a driver's pools, as its metrics say; read through the API server, which
 * needs the right to get pods/proxy. */
#ifndef CAIRN_INVENTORY_POOL_METRICS_H
#define CAIRN_INVENTORY_POOL_METRICS_H

#include <jansson.h>
#include <stdint.h>

struct cairn_err;
struct kube_client;

struct inventory_pool_space {
	uint64_t total; /* sum over the driver's pools */
	uint64_t free;
};

/* CAIRN_NOT_FOUND  the text has no such metrics */
int inventory_pool_space_parse(const char *text, struct inventory_pool_space *ret,
			       struct cairn_err *err);

/* CAIRN_DENIED  the caller may not use the proxy of this pod
 * or the codes of kube_get_raw() and inventory_pool_space_parse()
 */
int inventory_pool_space_get(struct kube_client *client, const json_t *pod,
			     struct inventory_pool_space *ret, struct cairn_err *err);

#endif
