/* SPDX-License-Identifier: Apache-2.0 */

/* The catalogue of a pool in the omap of one RADOS object (catalogue_ops.h).
 *
 * A batch is one operation on the object, which RADOS carries out as a whole or not at
 * all: the comparisons that the batch expects, the entry of this process's session, then
 * the changes. What a late function reads is compared too, and the function runs again if
 * it has changed. A scan reads pages of one version of the object and begins again when a
 * commit came in between.
 */
#ifndef CAIRN_POOL_RBD_CATALOGUE_H
#define CAIRN_POOL_RBD_CATALOGUE_H

#include <stdbool.h>

struct cairn_err;
struct catalogue;
struct rbd_cluster;

/* Creates the object; an existing one is kept. */
int rbd_catalogue_create(struct rbd_cluster *cluster, struct cairn_err *err);

/* The cluster is borrowed. CAIRN_DATA_LOSS: the object is missing. */
int rbd_catalogue_open(struct rbd_cluster *cluster, bool writable, struct catalogue **ret,
		       struct cairn_err *err);

#endif
