/* SPDX-License-Identifier: Apache-2.0 */

/* What a volume can be used as: block device or filesystem, by whom. */
#ifndef CAIRN_CSI_CAPABILITY_H
#define CAIRN_CSI_CAPABILITY_H

#include <stdbool.h>
#include <stddef.h>

#include "csi_types.pb-c.h"

struct cairn_err;

/* Filesystems that the node part can make and mount. */
#define CSI_FS_DEFAULT "ext4"

/* CAIRN_INVALID  incomplete, or nothing that this driver offers: several nodes
 *                writing, an unknown filesystem */
int csi_capability_check(const Csi__V1__VolumeCapability *capability, struct cairn_err *err);
int csi_capabilities_check(Csi__V1__VolumeCapability *const *list, size_t n, struct cairn_err *err);

bool csi_capability_is_block(const Csi__V1__VolumeCapability *capability);
bool csi_capability_is_read_only(const Csi__V1__VolumeCapability *capability);
/* At most one writer, also within a node. */
bool csi_capability_is_single_writer(const Csi__V1__VolumeCapability *capability);

/* The filesystem wanted; the default where none is named. */
/* False: any filesystem will do. */
bool csi_capability_names_fs(const Csi__V1__VolumeCapability *capability);
const char *csi_capability_fs(const Csi__V1__VolumeCapability *capability);

#endif
