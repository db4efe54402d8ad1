/* SPDX-License-Identifier: Apache-2.0 */

/* Calls to the Identity service of a CSI driver. */
#ifndef CAIRN_CSI_CLIENT_IDENTITY_H
#define CAIRN_CSI_CLIENT_IDENTITY_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;
struct net_channel;

/* CSI allows 63 bytes, but drivers with a longer name exist. */
#define CSI_CLIENT_NAME_MAX 256U

/* How calls are made: by net_unary() on a channel, or by a function of the caller, which may
 * count, record or cancel them. All requests are empty messages. Borrows what it points
 * to. */
struct csi_client {
	struct net_channel *channel;
	uint64_t timeout_ms;

	int (*call)(void *arg, const char *path, const ProtobufCMessageDescriptor *type,
		    ProtobufCMessage **ret, struct cairn_err *err); /* NULL: net_unary() */
	void *arg;
};

/* Makes one call; *ret is of type `type` and freed with proto_message_free(). */
int csi_client_ask(const struct csi_client *client, const char *path,
		   const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret,
		   struct cairn_err *err);

/* GetPluginInfo. The caller owns both strings; `ret_version` may be NULL.
 *
 * CAIRN_INTERNAL  the name is empty or longer than CSI_CLIENT_NAME_MAX
 * others          as the call returns
 */
int csi_client_name(const struct csi_client *client, char **ret_name, char **ret_version,
		    struct cairn_err *err);

struct csi_client_services {
	bool snapshot_metadata;     /* SNAPSHOT_METADATA_SERVICE */
	bool differential_snapshot; /* DIFFERENTIAL_SNAPSHOT_SERVICE */
	bool group_controller;      /* GROUP_CONTROLLER_SERVICE */
	bool topology;              /* VOLUME_ACCESSIBILITY_CONSTRAINTS */
};

/* GetPluginCapabilities. */
int csi_client_services(const struct csi_client *client, struct csi_client_services *ret,
			struct cairn_err *err);

#endif
