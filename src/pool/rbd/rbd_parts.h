/* SPDX-License-Identifier: Apache-2.0 */

/* Bytes under one name that may be more than one object of RADOS can hold.
 *
 * The first part is the object of that name, the others have "/1", "/2" and so on added; all but
 * the last are of one size, a multiple of 4 KiB that the writer chose. They are written in ascending order and removed in descending order, so
 * that what an interrupted process leaves is found by its name.
 */
#ifndef CAIRN_POOL_RBD_PARTS_H
#define CAIRN_POOL_RBD_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cairn_err;
struct rbd_cluster;

/* Removes what is there and makes the first part, empty. */
int rbd_parts_create(struct rbd_cluster *cluster, const char *name, struct cairn_err *err);
int rbd_parts_write(struct rbd_cluster *cluster, const char *name, uint64_t offset,
		    const char *data, size_t n, struct cairn_err *err);

struct rbd_parts {
	uint64_t size; /* of all */
	uint64_t part; /* of each but the last */
};

/* CAIRN_NOT_FOUND  there is nothing of that name */
int rbd_parts_stat(struct rbd_cluster *cluster, const char *name, struct rbd_parts *ret,
		   struct cairn_err *err);
/* CAIRN_DATA_LOSS  there are fewer bytes */
int rbd_parts_read(struct rbd_cluster *cluster, const char *name, const struct rbd_parts *parts,
		   uint64_t offset, char *data, size_t n, struct cairn_err *err);
/* A missing name is not an error. */
int rbd_parts_remove(struct rbd_cluster *cluster, const char *name, struct cairn_err *err);

/* True for an object that is not the first part. */
bool rbd_parts_is_later(const char *object);

#endif
