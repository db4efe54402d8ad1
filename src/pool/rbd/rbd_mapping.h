/* SPDX-License-Identifier: Apache-2.0 */

/* Volumes as block devices of the kernel's own client (krbd) or of rbd-nbd, where the
 * pool's address asks for them; rbd_attacher.c uses them instead of an export (rbd_export.h).
 *
 * Both are mapped by Ceph's own programs, `rbd` and `rbd-nbd`, and found again in sysfs and
 * /proc: nothing is kept. A snapshot needs the lock of its image. rbd-nbd has librbd under it
 * and cuts for others, and freezes what is mounted; krbd can only hand the lock over and
 * takes it back, so it is mapped without the option "exclusive", and the attacher makes sure
 * that no other client has the image open.
 */
#ifndef CAIRN_POOL_RBD_MAPPING_H
#define CAIRN_POOL_RBD_MAPPING_H

#include <stdbool.h>

#include "pool/device/volume_device.h"
#include "pool/rbd/rbd_cluster.h"

struct cairn_err;

struct rbd_mapping {
	const char *root; /* of /sys, /proc and /lib/modules: "" but in tests */
	const struct rbd_address *address;
	const char *image;
};

/* What a device of this path is; RBD_DEVICE_EXPORT for a loop device. */
enum rbd_device rbd_mapping_kind(const char *device);

/* Replaces RBD_DEVICE_AUTO by the first of krbd, nbd and export that this host has.
 *
 * CAIRN_UNIMPLEMENTED  the host does not have what was asked for; the text says what is missing
 */
int rbd_mapping_choose(const char *root, enum rbd_device wanted, enum rbd_device *ret,
		       struct cairn_err *err);

/* The device of the image, or "". */
int rbd_mapping_find(const struct rbd_mapping *mapping, char ret_device[DEVICE_PATH_MAX],
		     struct cairn_err *err);

/* Maps, and returns the device. Codes of cairn_run(). */
int rbd_mapping_map(const struct rbd_mapping *mapping, enum rbd_device kind, bool read_only,
		    char ret_device[DEVICE_PATH_MAX], struct cairn_err *err);

/* CAIRN_PRECONDITION  mounted or open elsewhere; it stays as it was
 * CAIRN_UNAVAILABLE   it cannot be opened, so whether it is used is not known
 */
int rbd_mapping_unmap(const char *device, struct cairn_err *err);

#endif
