/* SPDX-License-Identifier: Apache-2.0 */

/* `kubectl cairn nodes`, `volumes`, `snapshots` and `backups`. */

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "cli/output.h"
#include "inventory/backups.h"
#include "inventory/nodes.h"
#include "inventory/pool_metrics.h"
#include "inventory/snapshots.h"
#include "inventory/volumes.h"
#include "roles/client/plugin.h"
#include "roles/client/plugin_view.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- nodes --- */

static const struct cmd_column node_columns[] = {
	{.title = "NODE"},
	{.title = "DRIVER"},
	{.title = "STATE"},
	{.title = "VOLUMES", .right = true, .spare = 2},
	{.title = "SIZE", .right = true, .spare = 1},
	{.title = "POOL", .right = true},
	{.title = "USED", .right = true},
};

/* The space of the pools is optional; a driver that does not answer costs five seconds. */
static void node_space(struct client_view *view, const struct inventory_node *node,
		       struct inventory_pool_space *ret)
{
	struct cairn_err err = {0};
	int rc;

	*ret = (struct inventory_pool_space){0};
	if (!node->pod || view->pools_denied)
		return;
	rc = inventory_pool_space_get(view->client, node->pod, ret, &err);
	view->pools_denied = rc == CAIRN_DENIED;
	if (rc == CAIRN_DENIED)
		cmd_note("you may not get pods/proxy: the space of pools is shown as unknown");
	else if (rc)
		cmd_note("pool of node %s: %s", client_view_text(node->node), err.msg);
}

static int node_row(void *arg, const struct inventory_node *node, struct cairn_err *err)
{
	struct client_view *view = arg;
	struct cairn_json *json = &view->listing.json;
	bool counted = inventory_items(&view->inventory, INVENTORY_VOLUMES) != NULL;
	char volumes[24], size[CAIRN_SIZE_TEXT_MAX], pool[CAIRN_SIZE_TEXT_MAX], used[24] = "-";
	struct inventory_pool_space space;

	node_space(view, node, &space);
	if (client_view_row(view)) {
		const char *cells[] = {client_view_text(node->node),
				       node->driver,
				       inventory_node_state_text(node->state),
				       counted ? volumes : "-",
				       client_view_size(node->bytes, size),
				       client_view_size(space.total, pool),
				       used};

		snprintf(volumes, sizeof(volumes), "%" PRIu64, node->volumes);
		if (space.total)
			snprintf(used, sizeof(used), "%.0f%%",
				 100.0 - 100.0 * (double)space.free / (double)space.total);
		return cmd_table_add(&view->listing.table, cells, err);
	}
	cmd_json_field_string(json, "node", node->node);
	cmd_json_field_string(json, "driver", node->driver);
	cmd_json_field_string(json, "state",
			      node->state ? inventory_node_state_text(node->state) : NULL);
	client_view_field(view, "volumes", counted, node->volumes);
	client_view_field(view, "volume_bytes", counted, node->bytes);
	client_view_field(view, "pool_bytes", space.total > 0, space.total);
	client_view_field(view, "pool_free_bytes", space.total > 0, space.free);
	cmd_listing_record_end(&view->listing);
	return 0;
}

int client_nodes_run(struct cairn_err *err)
{
	cairn_cleanup(client_view_done) struct client_view view = {0};
	int rc = client_view_begin(
		&view, INVENTORY_BIT(INVENTORY_CSINODES),
		INVENTORY_BIT(INVENTORY_SERVICES) | INVENTORY_BIT(INVENTORY_DRIVERS) |
			INVENTORY_BIT(INVENTORY_PODS) | INVENTORY_BIT(INVENTORY_VOLUMES),
		err);

	if (rc)
		return rc;
	cmd_listing_begin(&view.listing, "nodes", node_columns, COUNT(node_columns));
	rc = inventory_nodes(&view.inventory, node_row, &view, err);
	return client_view_end(&view, rc, "no node has a driver of Cairn; --driver names another",
			       err);
}

/* --- volumes --- */

/* Without -A the namespace is known, and its column is left out. */
static const struct cmd_column volume_columns[] = {
	{.title = "NAMESPACE"},
	{.title = "CLAIM"},
	{.title = "NODE", .spare = 4},
	{.title = "SIZE", .right = true},
	{.title = "MODE", .spare = 2},
	{.title = "STATE", .spare = 3},
	{.title = "SNAPSHOTS", .right = true},
	{.title = "NEWEST"},
	{.title = "DRIVER", .spare = 1},
};

static void volume_record(struct client_view *view, const struct inventory_volume *volume)
{
	struct cairn_json *json = &view->listing.json;

	cmd_json_field_string(json, "namespace", volume->ns);
	cmd_json_field_string(json, "claim", volume->claim);
	cmd_json_field_string(json, "volume", volume->volume);
	cmd_json_field_string(json, "driver", volume->driver);
	cmd_json_field_string(json, "handle", volume->handle);
	cmd_json_field_string(json, "node", volume->node);
	client_view_field(view, "size_bytes", volume->size > 0, volume->size);
	cmd_json_field_string(json, "mode", volume->mode);
	cmd_json_field_string(json, "state", volume->phase);
	cmd_json_field_string(json, "storage_class", volume->storage_class);
	client_view_field(view, "snapshots",
			  inventory_items(&view->inventory, INVENTORY_SNAPSHOTS) != NULL,
			  volume->snapshots);
	cmd_json_field_string(json, "newest_snapshot", volume->newest);
	cmd_json_field_time(json, "newest_snapshot_time", volume->newest_ns);
	cmd_listing_record_end(&view->listing);
}

static int volume_row(void *arg, const struct inventory_volume *volume, struct cairn_err *err)
{
	struct client_view *view = arg;
	char size[CAIRN_SIZE_TEXT_MAX], count[24], age[CLIENT_AGE_TEXT_MAX];
	const char *cells[] = {
		volume->ns,
		volume->claim,
		client_view_text(volume->node),
		client_view_size(volume->size, size),
		client_view_text(volume->mode),
		client_view_text(volume->phase),
		inventory_items(&view->inventory, INVENTORY_SNAPSHOTS) ? count : "-",
		client_view_age(view, volume->newest_ns, age),
		client_view_text(volume->driver),
	};

	if (!client_view_row(view)) {
		volume_record(view, volume);
		return 0;
	}
	snprintf(count, sizeof(count), "%" PRIu64, volume->snapshots);
	return cmd_table_add(&view->listing.table, cells + client_view_skip(), err);
}

int client_volumes_run(struct cairn_err *err)
{
	cairn_cleanup(client_view_done) struct client_view view = {0};
	int rc = client_view_begin(
		&view, INVENTORY_BIT(INVENTORY_CLAIMS),
		INVENTORY_BIT(INVENTORY_SERVICES) | INVENTORY_BIT(INVENTORY_DRIVERS) |
			INVENTORY_BIT(INVENTORY_VOLUMES) | INVENTORY_BIT(INVENTORY_SNAPSHOTS),
		err);

	if (rc)
		return rc;
	cmd_listing_begin(&view.listing, "volumes", volume_columns + client_view_skip(),
			  COUNT(volume_columns) - client_view_skip());
	rc = inventory_volumes(&view.inventory, volume_row, &view, err);
	return client_view_end(&view, rc, "no claim has a volume of Cairn; --driver names another",
			       err);
}

/* --- snapshots --- */

static const struct cmd_column snapshot_columns[] = {
	{.title = "NAMESPACE"},
	{.title = "NAME"},
	{.title = "CLAIM", .spare = 4},
	{.title = "SIZE", .right = true, .spare = 3},
	{.title = "AGE", .right = true},
	{.title = "READY"},
	{.title = "BASE"},
	{.title = "DRIVER", .spare = 1},
};

static void snapshot_record(struct client_view *view, const struct inventory_snapshot *snapshot)
{
	struct cairn_json *json = &view->listing.json;

	cmd_json_field_string(json, "namespace", snapshot->ns);
	cmd_json_field_string(json, "name", snapshot->name);
	cmd_json_field_string(json, "claim", snapshot->claim);
	cmd_json_field_string(json, "driver", snapshot->driver);
	cmd_json_field_string(json, "handle", snapshot->handle);
	client_view_field(view, "size_bytes", snapshot->size > 0, snapshot->size);
	cmd_json_field_time(json, "created", snapshot->created_ns);
	cmd_json_field_bool(json, "ready", snapshot->ready);
	cmd_json_field_string(json, "base", snapshot->base);
	cmd_listing_record_end(&view->listing);
}

static int snapshot_row(struct client_view *view, const struct inventory_snapshot *snapshot,
			struct cairn_err *err)
{
	char size[CAIRN_SIZE_TEXT_MAX], age[CLIENT_AGE_TEXT_MAX];
	const char *cells[] = {
		snapshot->ns,
		snapshot->name,
		client_view_text(snapshot->claim),
		client_view_size(snapshot->size, size),
		client_view_age(view, snapshot->created_ns, age),
		snapshot->ready ? "yes" : "no",
		client_view_text(snapshot->base),
		client_view_text(snapshot->driver),
	};

	if (client_view_row(view))
		return cmd_table_add(&view->listing.table, cells + client_view_skip(), err);
	snapshot_record(view, snapshot);
	return 0;
}

int client_snapshots_run(struct cairn_err *err)
{
	cairn_cleanup(client_view_done) struct client_view view = {0};
	cairn_auto_free struct inventory_snapshot *rows = NULL;
	size_t n = 0;
	int rc = client_view_begin(
		&view, INVENTORY_BIT(INVENTORY_SNAPSHOTS),
		INVENTORY_BIT(INVENTORY_SERVICES) | INVENTORY_BIT(INVENTORY_CONTENTS), err);

	if (!rc)
		rc = inventory_snapshots(&view.inventory, &rows, &n, err);
	if (rc)
		return rc;
	cmd_listing_begin(&view.listing, "snapshots", snapshot_columns + client_view_skip(),
			  COUNT(snapshot_columns) - client_view_skip());
	for (size_t i = 0; i < n && !rc; i++)
		rc = snapshot_row(&view, &rows[i], err);
	return client_view_end(&view, rc, "no VolumeSnapshot here; use -A for all namespaces", err);
}

/* --- backups --- */

static const struct cmd_column backup_columns[] = {
	{.title = "NAMESPACE"},
	{.title = "CLAIM"},
	{.title = "WHAT"},
	{.title = "NAME"},
	{.title = "STATE"},
	{.title = "AGE", .right = true},
	{.title = "SCHEDULE", .spare = 1},
};

static int backup_row(void *arg, const struct inventory_backup *backup, struct cairn_err *err)
{
	struct client_view *view = arg;
	struct cairn_json *json = &view->listing.json;
	char age[CLIENT_AGE_TEXT_MAX];
	const char *cells[] = {backup->ns,
			       client_view_text(backup->claim),
			       backup->what,
			       backup->name,
			       backup->state,
			       client_view_age(view, backup->time_ns, age),
			       client_view_text(backup->schedule)};

	if (client_view_row(view))
		return cmd_table_add(&view->listing.table, cells + client_view_skip(), err);
	cmd_json_field_string(json, "namespace", backup->ns);
	cmd_json_field_string(json, "claim", backup->claim);
	cmd_json_field_string(json, "what", backup->what);
	cmd_json_field_string(json, "name", backup->name);
	cmd_json_field_string(json, "state", backup->state);
	cmd_json_field_string(json, "schedule", backup->schedule);
	cmd_json_field_time(json, "time", backup->time_ns);
	cmd_listing_record_end(&view->listing);
	return 0;
}

int client_backups_run(struct cairn_err *err)
{
	cairn_cleanup(client_view_done) struct client_view view = {0};
	int rc = client_view_begin(
		&view, INVENTORY_BIT(INVENTORY_SNAPSHOTS),
		INVENTORY_BIT(INVENTORY_JOBS) | INVENTORY_BIT(INVENTORY_CRONJOBS), err);

	if (rc)
		return rc;
	cmd_listing_begin(&view.listing, "backups", backup_columns + client_view_skip(),
			  COUNT(backup_columns) - client_view_skip());
	rc = inventory_backups(&view.inventory, backup_row, &view, err);
	return client_view_end(&view, rc, "no schedule, run or base of a backup here", err);
}
