/* SPDX-License-Identifier: Apache-2.0 */

/* The images of a pool on Ceph, and what their names mean.
 *
 *   vol-X        the volume vol-X
 *   vol-X.N      images that the volume had before a rollback or its deletion; they stay
 *                while snapshots in them do (N from 0 up)
 *   vol-X.new    a rollback that was not finished
 *   vol-X.aside  in quarantine
 *
 * A snapshot snap-X-… is a snapshot of that name in one of the images of vol-X. A snapshot
 * "origin.ID" marks the moment when an image was cloned from the snapshot ID, so that the
 * first comparison after cloning is one within an image.
 */
#ifndef CAIRN_POOL_RBD_IMAGE_H
#define CAIRN_POOL_RBD_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/rbd/rbd_api.h"
#include "pool/store/store.h"

struct cairn_err;
struct rbd_cluster;

#define RBD_IMAGE_NAME_MAX 96U
#define RBD_IMAGE_ORIGIN   "origin."
#define RBD_IMAGE_ASIDE    ".aside"

/* An open image; closed with rbd_image_done(). */
struct rbd_image_handle {
	const struct rbd_api *api;
	rbd_image_t image;
	char name[RBD_IMAGE_NAME_MAX];
};

void rbd_image_done(struct rbd_image_handle *handle);

/* Opens an image by its name. CAIRN_NOT_FOUND: there is none. */
int rbd_image_open(struct rbd_cluster *cluster, const char *name, bool writable,
		   struct rbd_image_handle *ret, struct cairn_err *err);

/* The size of an image, from its header: opening it takes a dozen requests.
 * CAIRN_NOT_FOUND: there is no such image. */
int rbd_image_size(struct rbd_cluster *cluster, const char *name, uint64_t *ret,
		   struct cairn_err *err);

/* Opens the image of an object, for reading; a snapshot is also selected.
 * CAIRN_NOT_FOUND: the object does not exist. */
int rbd_image_open_ref(struct rbd_cluster *cluster, struct store_ref ref,
		       struct rbd_image_handle *ret, struct cairn_err *err);

/* The same for a snapshot to be changed: nothing is selected. */
int rbd_image_open_owner(struct rbd_cluster *cluster, const char *snapshot_id,
			 struct rbd_image_handle *ret, struct cairn_err *err);

/* Calls `fn` for the name of each image in the namespace. */
int rbd_image_each(struct rbd_cluster *cluster,
		   int (*fn)(void *arg, const char *name, struct cairn_err *err), void *arg,
		   struct cairn_err *err);

/* Calls `fn` for the name of each snapshot that a user can name: not those in the trash. */
int rbd_image_each_snapshot(struct rbd_image_handle *handle,
			    int (*fn)(void *arg, const char *name, struct cairn_err *err),
			    void *arg, struct cairn_err *err);

/* 1 or 0: whether the image has it. */
int rbd_image_has_snapshot(struct rbd_image_handle *handle, const char *name,
			   struct cairn_err *err);

/* Snapshots of the pool in it, without origins. */
int rbd_image_count_snapshots(struct rbd_image_handle *handle, size_t *ret, struct cairn_err *err);

/* Removes the image with its origins, and its parent if that was only kept for it. 1: other
 * snapshots or clones need it, and nothing was removed but origins that no clone needs. */
int rbd_image_remove(struct rbd_cluster *cluster, const char *name, struct cairn_err *err);

/* True for "vol-" and 16 hexadecimal digits, with or without an ending: the namespace may hold
 * images of others. */
bool rbd_image_is_ours(const char *name);

/* True for "vol-X.N". */
bool rbd_image_is_retired(const char *name);

/* Renames the volume's image to the first vol-X.N that is free. */
int rbd_image_retire(struct rbd_cluster *cluster, const char *volume_id, struct cairn_err *err);

/* A new image "name": a clone of the snapshot's first `length` bytes, with zeros up to
 * `size`. One of that name must not be in use, and is replaced. */
int rbd_image_clone(struct rbd_cluster *cluster, const char *name, const char *snapshot_id,
		    uint64_t length, uint64_t size, struct cairn_err *err);

#endif
