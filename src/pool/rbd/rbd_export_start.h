/* SPDX-License-Identifier: Apache-2.0 */

/* Starting and ending exports of this host (rbd_export.h). */
#ifndef CAIRN_POOL_RBD_EXPORT_START_H
#define CAIRN_POOL_RBD_EXPORT_START_H

struct cairn_err;
struct rbd_export_spec;

enum rbd_export_state {
	RBD_EXPORT_NONE,
	RBD_EXPORT_RUNS,
	RBD_EXPORT_ENDED, /* its processes were killed: the file is mounted and answers nothing */
};

int rbd_export_look(const char *file, enum rbd_export_state *ret, struct cairn_err *err);

/* Makes the file and its directories, and returns when it can be used.
 *
 * CAIRN_PRECONDITION   attached on another node, or another client has the image
 * CAIRN_DENIED         no permission to mount
 * CAIRN_UNIMPLEMENTED  no FUSE, or the program is not installed
 */
int rbd_export_start(const struct rbd_export_spec *spec, struct cairn_err *err);

/* Unmounts the file, waits until the processes have ended, and removes it. The caller has
 * detached its devices. */
int rbd_export_stop(const char *file, struct cairn_err *err);

#endif
