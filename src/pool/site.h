/* SPDX-License-Identifier: Apache-2.0 */

/* Where a pool lives: a directory of this host, or a Ceph cluster.
 *
 * A site makes, opens and removes pools. Opening fills the parts of struct pool: catalogue,
 * store, change sets, locks and attacher, each behind its own table. The address that a
 * user gives for a pool selects the site: "rbd:…" is a Ceph cluster, anything else a
 * directory. A slot that is NULL has nothing to do for that site.
 */
#ifndef CAIRN_POOL_SITE_H
#define CAIRN_POOL_SITE_H

#include <stdbool.h>

#include "pool/pool.h"

struct cairn_err;
struct store_usage;

struct pool_site_ops {
	const char *name;

	/* Required; contracts of pool_create(), pool_destroy() and pool_open(). */
	int (*create)(const struct pool_create_spec *spec, struct pool_create_result *ret,
		      struct cairn_err *err);
	int (*destroy)(const char *address, struct cairn_err *err);
	int (*open)(struct pool *pool, const struct pool_open_spec *spec, struct cairn_err *err);
	/* Releases what the site holds itself, after the pool's parts were closed. */
	void (*close)(struct pool *pool);
	/* The address as it has to be given from another working directory. */
	int (*absolute)(const char *address, char *ret, size_t n, struct cairn_err *err);

	/* Optional. Lowers the free space to what can really be used. */
	int (*limit_space)(struct pool *pool, struct store_usage *usage, struct cairn_err *err);
	/* Optional. Contracts of pool_has_stopped() and pool_wants_reopening(). */
	bool (*has_stopped)(struct pool *pool, const struct cairn_err *err);
	bool (*wants_reopening)(struct pool *pool);
	/* Optional. One line about storage that cannot be used, or nothing. */
	void (*look)(struct pool *pool, struct pool_condition *ret);
};

/* The site of an address. */
const struct pool_site_ops *pool_site_of(const char *address);

extern const struct pool_site_ops pool_directory_site;

/* pool_create.c and pool_destroy.c */
int pool_directory_create(const struct pool_create_spec *spec, struct pool_create_result *ret,
			  struct cairn_err *err);
int pool_directory_destroy(const char *dir, struct cairn_err *err);

#endif
