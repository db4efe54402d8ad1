/* SPDX-License-Identifier: Apache-2.0 */

/* Capabilities of the controller, node and group controller services of a CSI driver.
 * Error codes are those of csi_client_ask(). */
#ifndef CAIRN_CSI_CLIENT_CAPABILITIES_H
#define CAIRN_CSI_CLIENT_CAPABILITIES_H

#include <stdbool.h>

struct cairn_err;
struct csi_client;

struct csi_client_controller {
	bool attach; /* PUBLISH_UNPUBLISH_VOLUME */
	bool expand;
	bool list_snapshots;
	bool get_snapshot;
	bool list_deltas; /* LIST_BLOCK_SNAPSHOT_DELTAS */
};

int csi_client_controller(const struct csi_client *client, struct csi_client_controller *ret,
			  struct cairn_err *err);

struct csi_client_node {
	bool stage; /* STAGE_UNSTAGE_VOLUME */
	bool expand;
};

int csi_client_node(const struct csi_client *client, struct csi_client_node *ret,
		    struct cairn_err *err);

/* CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT. Call it only for a driver with the service
 * GROUP_CONTROLLER_SERVICE. */
int csi_client_groups(const struct csi_client *client, bool *ret, struct cairn_err *err);

#endif
