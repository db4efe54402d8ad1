/* SPDX-License-Identifier: Apache-2.0 */

/* Loop devices, one step above their ioctls.
 *
 * A device belongs to a file when its backing file has the file's device and
 * inode number; paths and loop numbers are reused. So callers pass the file,
 * and it is checked again on the open descriptor: a loop number that the kernel
 * has since given to another file is never touched.
 *
 * Two devices on one file would have two incoherent caches. Attaching therefore
 * happens under pool_loop_lock() on the backing file.
 */
#ifndef CAIRN_POOL_LOOP_H
#define CAIRN_POOL_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "pool/device/volume_device.h"

struct cairn_err;

struct loop_device {
	char path[DEVICE_PATH_MAX]; /* "" for none */
	uint32_t flags;             /* LO_FLAGS_*; 0 where only sysfs could be read */
};

/* The device whose backing file is `file`; path "" when there is none. A writable
 * device is preferred to a read-only one. */
int pool_loop_find(const struct stat *file, struct loop_device *ret, struct cairn_err *err);

/* Calls `fn` for each device whose backing file is `file`: the file may have been
 * attached more than once. A positive return of `fn` ends the search, which returns
 * 0; a negative one is returned. */
int pool_loop_find_all(const struct stat *file,
		       int (*fn)(void *arg, const struct loop_device *device,
				 struct cairn_err *err),
		       void *arg, struct cairn_err *err);

/* Whether a device has a backing file below a directory; true also where sysfs cannot be
 * read. Asks nothing of the directory's filesystem, which may have shut down. */
bool pool_loop_any_below(const char *dir);

struct loop_spec {
	const char *file; /* its path, for the label and for messages */
	bool read_only;
	bool autoclear; /* detaches by itself when the last user closes it */
	uint64_t size;  /* of the device, if the file is longer; 0: the file's */
};

/* Attaches the file to a free device, with direct I/O where that works and is
 * safe. *ret_fd holds the device open: an autoclear device needs that until it
 * is mounted. The caller holds pool_loop_lock() and pool_loop_find() has found no device.
 *
 * CAIRN_DENIED         no permission to attach loop devices
 * CAIRN_UNIMPLEMENTED  this machine has no loop devices
 * CAIRN_ABORTED        other processes kept taking the free device
 */
int pool_loop_attach(const struct loop_spec *spec, struct loop_device *ret, int *ret_fd,
		     struct cairn_err *err);

/* Opens the device if it still belongs to the file, else CAIRN_NOT_FOUND. It
 * keeps belonging to the file while the descriptor is open. */
int pool_loop_open(const char *device, const struct stat *file, int flags, int *ret_fd,
		   struct cairn_err *err);

/* Detaches and waits until the device is gone.
 *
 * CAIRN_PRECONDITION  mounted or open elsewhere; it stays as it was
 */
int pool_loop_detach(const char *device, const struct stat *file, struct cairn_err *err);

/* The same for a file whose filesystem does not answer any more: found by the path that the
 * device was attached with. */
int pool_loop_find_path(const char *path, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err);
int pool_loop_detach_path(const char *path, struct cairn_err *err);

/* Waits until the device no longer belongs to the file. False after `wait_ms`. */
bool pool_loop_wait_gone(const char *device, const struct stat *file, uint64_t wait_ms);

/* Waits until an autoclear device has lost its backing file. False after
 * `wait_ms`, and at once for a device that does not detach by itself. */
bool pool_loop_wait_released(dev_t device, uint64_t wait_ms);

/* Excludes every other pool_loop_lock() on the file until the descriptor is closed. The
 * locked file is the one that has the name once the lock is held.
 *
 * CAIRN_ABORTED  another holder kept it for LOOP_LOCK_WAIT_MS
 */
int pool_loop_lock(const char *file, int *ret_fd, struct cairn_err *err);

#define LOOP_LOCK_WAIT_MS   30000U
#define LOOP_DETACH_WAIT_MS 3000U /* longer than a probe by udev or a listing takes */

#endif
