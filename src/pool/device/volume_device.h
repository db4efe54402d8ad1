/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes as block devices: loop devices over backing files, the filesystems
 * mounted on them, and freezing those while a snapshot is cut.
 *
 * A file's loop device is recognised by device and inode number of its backing
 * file, not by path, so a device that was attached by hand is found too.
 *
 * Freezing is done by a separate guard process: it freezes, waits, and thaws on
 * request, when this process dies, or after FREEZE_HOLD_MAX_MS. A cut made
 * under an expired freeze does not count. So a filesystem is never left frozen,
 * whichever of the two is killed.
 */
#ifndef CAIRN_POOL_DEVICE_H
#define CAIRN_POOL_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"

struct cairn_err;
struct device_freeze;

#define DEVICE_PATH_MAX    32    /* "/dev/loop" and digits */
#define FREEZE_HOLD_MAX_MS 20000 /* writers stall no longer than this */

/* The loop device whose backing file is `path`, or "" in `ret_device` when
 * there is none. Works without root as far as sysfs is readable. */
int pool_device_find(const char *path, char ret_device[DEVICE_PATH_MAX], struct cairn_err *err);

/* Every loop device over one file. */
struct device_one {
	char path[DEVICE_PATH_MAX];
	bool read_only;
	bool ended;  /* what serves its data was killed: it can only be detached */
	char *mount; /* see pool_device_mount_point() */
};

struct device_list {
	struct device_one *list;
	size_t n;
};

/* All loop devices of the file: each has a cache of its own and may be mounted.
 * `ret` is empty when there are none. */
int pool_device_list_get(const char *path, struct device_list *ret, struct cairn_err *err);
void pool_device_list_done(struct device_list *list);

/* Attaches with direct I/O where the filesystem supports it, with 512-byte
 * sectors; a file that already has a device keeps it. Concurrent calls are safe
 * and get the same device.
 *
 * CAIRN_DENIED         no permission to attach loop devices
 * CAIRN_UNIMPLEMENTED  this machine has no loop devices
 * CAIRN_PRECONDITION   wanted writable, but attached read-only already
 */
int pool_device_attach(const char *path, bool read_only, char ret_device[DEVICE_PATH_MAX],
		       struct cairn_err *err);

/* The same for the first `size` bytes of a file that may be longer (0: all of it), and
 * for a caller that holds pool_loop_lock() on the file. */
int pool_device_attach_locked(const char *path, bool read_only, uint64_t size,
			      char ret_device[DEVICE_PATH_MAX], struct cairn_err *err);
int pool_device_detach_locked(const char *path, struct cairn_err *err);

/* Detaches, and waits until the device is gone. A file without a device is not
 * an error.
 *
 * CAIRN_PRECONDITION  mounted or open elsewhere; the device stays as it was
 */
int pool_device_detach(const char *path, struct cairn_err *err);

/* Grows an attached device to `size` bytes of its file; does nothing if it has
 * that size. A device that is not a loop device grows by itself, and is waited for.
 *
 * CAIRN_UNAVAILABLE  it has not grown yet
 */
int pool_device_refresh_size(const char *device, uint64_t size, struct cairn_err *err);

int pool_device_is_read_only(const char *device, bool *ret, struct cairn_err *err);

/* Flushes the device's dirty pages to the backing file. */
int pool_device_flush(const char *device, struct cairn_err *err);

/* Where the filesystem on the device is mounted (any one place), or NULL in
 * *ret_mount: not mounted, or only where this process cannot see it. Partitions
 * are ignored; our devices are attached without partition scanning. */
int pool_device_mount_point(const char *device, char **ret_mount, struct cairn_err *err);

/* Freezes all these mounted filesystems, in order; one that is named through
 * two mounts is frozen once. On failure none stays frozen.
 *
 * CAIRN_PRECONDITION   one is already frozen by another process
 * CAIRN_UNIMPLEMENTED  one is of a kind that cannot be frozen, such as vfat
 * CAIRN_DENIED         no permission to freeze
 * CAIRN_RANGE          more than 256 filesystems
 */
int pool_device_freeze_begin(const char *const mounts[], size_t n, struct device_freeze **ret,
			     struct cairn_err *err);

/* The same with another time limit than FREEZE_HOLD_MAX_MS. */
int pool_device_freeze_begin_for(const char *const mounts[], size_t n, uint64_t hold_max_ms,
				 struct device_freeze **ret, struct cairn_err *err);

/* Thaws, and reports whether all stayed frozen until now. Frees `freeze`.
 *
 * CAIRN_ABORTED  the hold expired, the guard was killed, or another process
 *                thawed: discard snapshots cut under this freeze
 */
int pool_device_freeze_end(struct device_freeze *freeze, struct cairn_err *err);

/* Thaws the filesystem of a device, for the case that a process died together
 * with its guard (a container that was killed as a whole). A device that is not
 * mounted or not frozen is not an error. */
int pool_device_thaw(const char *device, struct cairn_err *err);

/* Thaws without reporting whether the freeze lasted; for error paths. Accepts
 * NULL. */
void pool_device_freeze_free(struct device_freeze *freeze);
CAIRN_DEFINE_CLEANUP(struct device_freeze, pool_device_freeze_free);

#endif
