/* SPDX-License-Identifier: Apache-2.0 */

/* The methods of csi.v1.Controller, by file; controller.c lists them. */
#ifndef CAIRN_CSI_CONTROLLER_H
#define CAIRN_CSI_CONTROLLER_H

#include "csi/service.h"

#define CSI_METHOD(name)                                                                  \
	int name(struct csi_driver *driver, const void *request, struct cairn_buf *reply, \
		 struct cairn_err *err)

/* create_volume.c */
CSI_METHOD(csi_create_volume);

/* volume.c */
CSI_METHOD(csi_delete_volume);
CSI_METHOD(csi_validate_capabilities);
CSI_METHOD(csi_get_capacity);
CSI_METHOD(csi_expand_volume);
CSI_METHOD(csi_modify_volume);
struct csi_size_range;
/* Grows the volume if its size does not fit the range; in its turn.
 *
 * CAIRN_RANGE  it would have to shrink
 */
int csi_volume_grow(struct pool *pool, const struct csi_size_range *range,
		    struct pool_volume *volume, struct cairn_err *err);

/* list_volumes.c */
CSI_METHOD(csi_list_volumes);
CSI_METHOD(csi_get_volume);

/* publish.c */
CSI_METHOD(csi_publish_volume);
CSI_METHOD(csi_unpublish_volume);

/* snapshot.c */
CSI_METHOD(csi_create_snapshot);
CSI_METHOD(csi_delete_snapshot);
/* list_snapshots.c */
CSI_METHOD(csi_list_snapshots);
CSI_METHOD(csi_get_snapshot);

#endif
