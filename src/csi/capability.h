/* SPDX-License-Identifier: Apache-2.0 */

/* Volume capabilities: block device or filesystem, and the access mode. */
#ifndef CAIRN_CSI_CAPABILITY_H
#define CAIRN_CSI_CAPABILITY_H

#include <stdbool.h>
#include <stddef.h>

#include "csi_types.pb-c.h"

struct cairn_err;

/* Filesystems that the node service can create and mount. */
#define CSI_FS_DEFAULT "ext4"

/* CAIRN_INVALID  incomplete, or not supported by this driver: several nodes
 *                writing, an unknown filesystem */
int csi_capability_check(const Csi__V1__VolumeCapability *capability, struct cairn_err *err);
int csi_capabilities_check(Csi__V1__VolumeCapability *const *list, size_t n, struct cairn_err *err);

bool csi_capability_is_block(const Csi__V1__VolumeCapability *capability);
bool csi_capability_is_read_only(const Csi__V1__VolumeCapability *capability);
/* True if there is at most one writer, also within a node. */
bool csi_capability_is_single_writer(const Csi__V1__VolumeCapability *capability);

/* The requested filesystem, or the default if none is named. */
/* False if any filesystem is acceptable. */
bool csi_capability_names_fs(const Csi__V1__VolumeCapability *capability);
const char *csi_capability_fs(const Csi__V1__VolumeCapability *capability);

#endif
