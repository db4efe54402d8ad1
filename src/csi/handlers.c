/* SPDX-License-Identifier: Apache-2.0 */

/* Methods with their own handlers: streams, and listings that may take long and stop when
 * the caller has gone. */

#include "csi/service.h"

#define OLDER_DATA (CSI_OLDER_DIFFERENTIAL | CSI_OLDER_DELTAS)

const struct csi_handler csi_handlers[] = {
	{"/csi.v1.SnapshotMetadata/GetMetadataAllocated", NET_SERVER_STREAM, csi_metadata_allocated,
	 0},
	{"/csi.v1.SnapshotMetadata/GetMetadataDelta", NET_SERVER_STREAM, csi_metadata_delta, 0},
	{"/SnapshotMetadata/GetAllocated", NET_SERVER_STREAM, csi_session_allocated,
	 CSI_OLDER_SESSIONS},
	{"/SnapshotMetadata/GetDelta", NET_SERVER_STREAM, csi_session_delta, CSI_OLDER_SESSIONS},
	{"/csi.v1.DifferentialSnapshot/GetDifferentialSnapshot", NET_UNARY, csi_differential_get,
	 CSI_OLDER_DIFFERENTIAL},
	{"/csi.v1.Controller/ListSnapshotDeltas", NET_UNARY, csi_deltas_list, CSI_OLDER_DELTAS},
	{"/cairn.v1.SnapshotData/GetBlock", NET_SERVER_STREAM, csi_block_get, OLDER_DATA},
};
const size_t csi_handlers_n = sizeof(csi_handlers) / sizeof(csi_handlers[0]);

bool csi_handler_is_on(const struct csi_driver *driver, const struct csi_handler *handler)
{
	return handler->older == 0 || (handler->older & driver->older) != 0;
}
