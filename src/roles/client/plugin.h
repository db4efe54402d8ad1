/* SPDX-License-Identifier: Apache-2.0 */

/* The commands that only `kubectl cairn` has: views of a cluster, and the changed blocks of
 * VolumeSnapshots for people. cli/plugin.h has the tree. */
#ifndef CAIRN_ROLES_PLUGIN_H
#define CAIRN_ROLES_PLUGIN_H

#include <stdbool.h>

#include "cli/client_flags.h"
#include "cli/map_print.h"

struct cairn_err;
struct cmd_listing;
struct kube_client;

/* Filled by the flags. kubeconfig, context, driver and namespace are those of `listing`. */
struct plugin_options {
	struct client_flags listing;
	bool all_namespaces;
	struct cmd_map_options map;
	/* The arguments of delta and map, "NAMESPACE/NAME" or "NAME". */
	const char *base; /* NULL: allocated blocks */
	const char *target;
};

extern struct plugin_options plugin_options;

int client_nodes_run(struct cairn_err *err);
int client_volumes_run(struct cairn_err *err);
int client_snapshots_run(struct cairn_err *err);
int client_backups_run(struct cairn_err *err);
int client_delta_run(struct cairn_err *err);
int client_map_run(struct cairn_err *err);

/* --- shared by them --- */

int client_plugin_connect(struct kube_client **ret, struct cairn_err *err);

/* The namespace to look at: that of the flag, else that of the context; NULL for all. */
const char *client_plugin_namespace(const struct kube_client *client);

#endif
