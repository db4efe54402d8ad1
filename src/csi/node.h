/* SPDX-License-Identifier: Apache-2.0 */

/* The methods of csi.v1.Node, by file; node.c lists them. */
#ifndef CAIRN_CSI_NODE_H
#define CAIRN_CSI_NODE_H

#include "csi/capability.h"
#include "csi/controller.h"

/* node_stage.c */
CSI_METHOD(csi_node_stage);
CSI_METHOD(csi_node_unstage);

/* node_publish.c */
CSI_METHOD(csi_node_publish);
CSI_METHOD(csi_node_unpublish);

/* node_volume.c */
CSI_METHOD(csi_node_stats);
CSI_METHOD(csi_node_expand);

/* The volume's device, attached the way it is wanted: one that is attached the
 * other way is attached anew.
 *
 * CAIRN_PRECONDITION  it is published or in use the other way
 */
int csi_node_attach(struct pool *pool, const char *volume_id, bool read_only, char *ret_device,
		    size_t n, struct cairn_err *err);

/* Whether the volume is to be read only: *ret was so already, or the capability or
 * the controller says so. */
int csi_node_read_only(struct pool *pool, const char *volume_id,
		       const Csi__V1__VolumeCapability *capability, bool *ret,
		       struct cairn_err *err);

/* CAIRN_EXISTS when the device's filesystem is mounted at the staging path: who
 * wrote to the device as well would destroy it. */
int csi_node_check_raw(const char *volume_id, const char *device, const char *staging,
		       struct cairn_err *err);

/* True in *ret if the device is what is mounted at `path`. */
int csi_node_is_mounted(const char *device, const char *path, bool *ret, struct cairn_err *err);

#endif
