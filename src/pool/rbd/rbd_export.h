/* SPDX-License-Identifier: Apache-2.0 */

/* The program cairn-rbd-export: an image of the pool as a file of this host, under which a loop
 * device is put. rbd_attacher.c starts it, and it ends when its file is unmounted.
 *
 * Two processes: the keeper holds the kernel's connection and nothing else, the server does
 * the work. A server that was killed is replaced; the new one fences the old one, asks the
 * kernel for what was not answered, and continues. If the keeper is killed as well, the file
 * ends with errors, as a disk that was pulled out: nothing that was acknowledged is lost.
 *
 * The server holds a lock of the pool while it runs, so that an image is exported on one
 * node at a time, and the image's exclusive lock, which keeps other clients of RBD from
 * writing.
 */
#ifndef CAIRN_POOL_RBD_EXPORT_H
#define CAIRN_POOL_RBD_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/store/store.h"

#define RBD_EXPORT_PROGRAM "rbd-export"

/* Beside the file: locked while one of the two processes lives; their ids. */
#define RBD_EXPORT_PID_ENDING ".pid"

struct rbd_export_spec {
	const char *address; /* of the pool */
	struct store_ref ref;
	const char *file; /* an empty file to be mounted on */
	bool read_only;
};

/* Slots of the pool's locks (locks.h): to attach and detach an object, and held while it is
 * exported. */
uint64_t rbd_export_attach_slot(const char *id);
uint64_t rbd_export_slot(const char *id);

/* The program, after its arguments were read: writes one line to standard output, "0" when
 * the file can be used or a code and a message, and returns its exit status. */
int rbd_export_run(const struct rbd_export_spec *spec);

#endif
