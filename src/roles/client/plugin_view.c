/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/client/plugin_view.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "cli/options.h"
#include "cli/output.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "kube/kube_resource.h"
#include "roles/client/plugin.h"

int client_plugin_connect(struct kube_client **ret, struct cairn_err *err)
{
	const struct kube_config_options where = {
		.kubeconfig = plugin_options.listing.options.kubeconfig,
		.context = plugin_options.listing.options.context,
	};
	const struct kube_client_options how = {.user_agent = "kubectl-cairn"};
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	int rc = kube_config_load(&where, &config, err);

	return rc ? rc : kube_client_new(config, &how, ret, err);
}

const char *client_plugin_namespace(const struct kube_client *client)
{
	const char *ns = plugin_options.listing.query.namespace_name;

	if (plugin_options.all_namespaces)
		return NULL;
	return ns ? ns : kube_client_namespace(client);
}

/* --- what all views have in common --- */

void client_view_done(struct client_view *view)
{
	inventory_done(&view->inventory);
	kube_client_free(view->client);
}

/* Says which columns stay empty because of a right that is missing. */
static void note_denied(const struct inventory *inventory)
{
	for (unsigned kind = 0; kind < INVENTORY_KINDS; kind++)
		if (inventory->denied & INVENTORY_BIT(kind))
			cmd_note("you may not list %s: what they contain is shown as unknown",
				 inventory_resource(kind)->plural);
}

int client_view_begin(struct client_view *view, unsigned needed, unsigned wanted,
		      struct cairn_err *err)
{
	int rc = client_plugin_connect(&view->client, err);

	if (!rc)
		rc = inventory_read(view->client, client_plugin_namespace(view->client), needed,
				    wanted, &view->inventory, err);
	if (rc)
		return rc;
	view->inventory.driver = plugin_options.listing.options.driver;
	view->now_ns = cairn_now_ns();
	note_denied(&view->inventory);
	return 0;
}

int client_view_end(struct client_view *view, int rc, const char *nothing, struct cairn_err *err)
{
	int rc_end = cmd_listing_end(&view->listing, rc ? NULL : err);

	if (!rc && !rc_end && view->rows == 0 && cmd_options.output == CMD_OUTPUT_TABLE)
		cmd_note("%s", nothing);
	return rc ? rc : rc_end;
}

bool client_view_row(struct client_view *view)
{
	view->rows++;
	if (cmd_options.output == CMD_OUTPUT_TABLE)
		return true;
	cmd_listing_record_begin(&view->listing);
	return false;
}

const char *client_view_text(const char *text)
{
	return text && *text ? text : "-";
}

const char *client_view_size(uint64_t bytes, char out[CAIRN_SIZE_TEXT_MAX])
{
	return bytes ? cairn_format_size(bytes, out) : "-";
}

const char *client_view_age(const struct client_view *view, uint64_t ns,
			    char out[CLIENT_AGE_TEXT_MAX])
{
	uint64_t s = view->now_ns > ns ? (view->now_ns - ns) / 1000000000U : 0;

	if (ns == 0)
		return "-";
	if (s >= 86400)
		snprintf(out, CLIENT_AGE_TEXT_MAX, "%" PRIu64 "d%" PRIu64 "h", s / 86400,
			 s / 3600 % 24);
	else if (s >= 3600)
		snprintf(out, CLIENT_AGE_TEXT_MAX, "%" PRIu64 "h%" PRIu64 "m", s / 3600,
			 s / 60 % 60);
	else if (s >= 60)
		snprintf(out, CLIENT_AGE_TEXT_MAX, "%" PRIu64 "m%" PRIu64 "s", s / 60, s % 60);
	else
		snprintf(out, CLIENT_AGE_TEXT_MAX, "%" PRIu64 "s", s);
	return out;
}

void client_view_field(struct client_view *view, const char *key, bool known, uint64_t value)
{
	if (known)
		cmd_json_field_u64(&view->listing.json, key, value);
	else
		cmd_json_field_string(&view->listing.json, key, NULL);
}

size_t client_view_skip(void)
{
	return plugin_options.all_namespaces ? 0 : 1;
}
