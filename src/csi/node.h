/* SPDX-License-Identifier: Apache-2.0 */

/* The methods of csi.v1.Node, by file; node.c lists them. */
#ifndef CAIRN_CSI_NODE_H
#define CAIRN_CSI_NODE_H

#include "csi/capability.h"
#include "csi/csi_controller.h"

/* node_stage.c */
CSI_METHOD(csi_node_stage);
CSI_METHOD(csi_node_unstage);

/* node_publish.c */
CSI_METHOD(csi_node_publish);
CSI_METHOD(csi_node_unpublish);

/* node_volume.c */
CSI_METHOD(csi_node_stats);
CSI_METHOD(csi_node_expand);

/* Returns the volume's device, attached as requested; if it is attached in the other mode,
 * it is detached and attached again.
 *
 * CAIRN_PRECONDITION  it is published or in use in the other mode
 */
int csi_node_attach(struct pool *pool, const char *volume_id, bool read_only, char *ret_device,
		    size_t n, struct cairn_err *err);

/* Sets *ret if the volume must be read-only, because of the capability or the controller's
 * publication; a *ret that is true stays true. */
int csi_node_read_only(struct pool *pool, const char *volume_id,
		       const Csi__V1__VolumeCapability *capability, bool *ret,
		       struct cairn_err *err);

/* CAIRN_EXISTS if the device's filesystem is mounted at the staging path: writing to the
 * device as well would destroy the filesystem. */
int csi_node_check_raw(const char *volume_id, const char *device, const char *staging,
		       struct cairn_err *err);

/* Sets *ret to true if the device is mounted at `path`. */
int csi_node_is_mounted(const char *device, const char *path, bool *ret, struct cairn_err *err);

#endif
