/* SPDX-License-Identifier: Apache-2.0 */

/* An image as a file, through the kernel's FUSE protocol.
 *
 * One file per mount, mounted on a file: it has no directory, and its only node is the
 * root. Every read, write, discard and flush becomes one asynchronous request to the image,
 * so as many are in flight as the kernel has; an answer is sent when Ceph has answered, never
 * before. Nothing is cached on the way: the file is opened for direct I/O.
 *
 * The protocol is spoken without libfuse, because that library cannot continue a connection
 * that another process began: after the server was killed, the next one asks the kernel for
 * the requests that were not answered (Linux 6.9 or later) and the file's users notice
 * nothing but a delay.
 */
#ifndef CAIRN_POOL_RBD_EXPORT_FUSE_H
#define CAIRN_POOL_RBD_EXPORT_FUSE_H

#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct rbd_image_handle;

/* What a server leaves to the one that continues after it; in memory that both share. */
struct export_state {
	bool begun;  /* the kernel and the server agreed on the protocol */
	bool resend; /* the kernel can send requests again */
};

struct export_fuse_spec {
	int fd; /* of /dev/fuse, mounted; borrowed */
	struct rbd_image_handle *image;
	bool read_only;
	struct export_state *state;
	/* Called once, when the kernel can use the file. */
	void (*ready)(void *arg);
	void *arg;
};

/* Mounts the file; `fd` is a new descriptor of /dev/fuse. */
int rbd_export_mount(int fd, const char *file, bool read_only, struct cairn_err *err);

/* Serves until the file is unmounted and closed by its last user, and everything that was
 * under way is answered. */
int rbd_export_serve(const struct export_fuse_spec *spec, struct cairn_err *err);

#endif
