/* SPDX-License-Identifier: Apache-2.0 */

/* Freezes what is mounted from an exported image while a snapshot of it is cut.
 *
 * The process that cuts may be on another node, where it cannot freeze; librbd notifies every
 * client of the image before a snapshot is made, and waits for its answer. A filesystem that
 * is frozen already was frozen by a process of this node for the same cut. One that cannot be
 * frozen is flushed, and its snapshot is what a power cut would leave.
 */
#ifndef CAIRN_POOL_RBD_EXPORT_QUIESCE_H
#define CAIRN_POOL_RBD_EXPORT_QUIESCE_H

struct cairn_err;
struct rbd_export_quiesce;
struct rbd_image_handle;

/* `file` is the exported file, of which loop devices are made. Both are borrowed. */
int rbd_export_quiesce_begin(struct rbd_image_handle *image, const char *file,
			     struct rbd_export_quiesce **ret, struct cairn_err *err);

/* Thaws what is frozen. Accepts NULL. */
void rbd_export_quiesce_end(struct rbd_export_quiesce *quiesce);

#endif
