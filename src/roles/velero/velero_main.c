/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn velero`. */

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "kube/kube_client.h"
#include "kube/kube_config.h"
#include "kube/object.h"
#include "repo/aws_credentials.h"
#include "repo/repo_store.h"
#include "roles/role.h"
#include "roles/velero/velero_options.h"
#include "velero/describe.h"

#define RETRY_MS 10000U

static int velero_open_store(const struct velero_describe_options *o, struct repo_store **ret,
			     struct cairn_err *err)
{
	cairn_cleanup(repo_aws_credentials_done) struct repo_aws_credentials keys = {0};
	struct repo_store_options options = {.location = o->store,
					     .region = o->region,
					     .ca_file = o->ca_file,
					     .retry_ms = RETRY_MS};
	int rc = 0;

	if (o->credentials) {
		rc = repo_aws_credentials_read(o->credentials, o->profile, &keys, err);
		options.access_key = keys.access_key;
		options.secret_key = keys.secret_key;
		options.session_token = keys.session_token;
	}
	if (rc)
		return rc;
	repo_store_options_from_environment(&options);
	return repo_store_open(&options, ret, err);
}

static int velero_connect(const struct velero_describe_options *o, struct kube_client **ret,
			  struct cairn_err *err)
{
	const struct kube_config_options where = {.kubeconfig = o->kubeconfig};
	const struct kube_client_options how = {.user_agent = "cairn"};
	cairn_cleanup(kube_config_freep) struct kube_config *config = NULL;
	int rc = kube_config_load(&where, &config, err);

	return rc ? rc : kube_client_new(config, &how, ret, err);
}

static const char *shown(const json_t *object, const char *field)
{
	const char *text = kube_str(object, field);

	return text && *text ? text : "-";
}

/* "5 of 10 bytes", "-" if they are not counted. */
static void velero_print_bytes(const json_t *object)
{
	int64_t done = 0, total = 0;
	char a[CAIRN_SIZE_TEXT_MAX], b[CAIRN_SIZE_TEXT_MAX];

	if (!kube_i64(object, &done, "done") || !kube_i64(object, &total, "total") || done < 0 ||
	    total < 0)
		cmd_out_text("-");
	else
		cmd_outf("%s of %s", cairn_format_size((uint64_t)done, a),
			 cairn_format_size((uint64_t)total, b));
}

static void velero_print_csi(const json_t *picture, bool details)
{
	const json_t *list = kube_at(picture, "csi_snapshots");
	size_t i;
	json_t *entry;

	cmd_out_fact("CSI snapshots", "%zu", json_array_size(list));
	json_array_foreach(list, i, entry)
	{
		int64_t size = 0;
		char text[CAIRN_SIZE_TEXT_MAX] = "-";

		if (!details)
			continue;
		if (kube_i64(entry, &size, "size") && size >= 0)
			cairn_format_size((uint64_t)size, text);
		cmd_outf("  %s/%s  snapshot %s  handle %s  driver %s  size %s\n",
			 shown(entry, "namespace"), shown(entry, "claim"), shown(entry, "snapshot"),
			 shown(entry, "handle"), shown(entry, "driver"), text);
	}
}

static void velero_print_work(const json_t *picture, const char *field, const char *title,
			      bool details)
{
	const json_t *list = kube_at(picture, field);
	size_t i;
	json_t *entry;

	cmd_out_fact(title, "%zu", json_array_size(list));
	json_array_foreach(list, i, entry)
	{
		const char *message = kube_str(entry, "message");

		if (kube_str(entry, "volume"))
			cmd_outf("  %s", shown(entry, "volume"));
		else
			cmd_outf("  %s/%s", shown(entry, "namespace"), shown(entry, "claim"));
		cmd_outf("  %s  ", shown(entry, "phase"));
		velero_print_bytes(entry);
		if (details && kube_str(entry, "snapshot"))
			cmd_outf("  snapshot %s", shown(entry, "snapshot"));
		if (message && *message)
			cmd_outf("  %s", message);
		cmd_out_text("\n");
	}
}

static void velero_print_rest(const json_t *picture, bool details)
{
	size_t i;
	json_t *entry;

	json_array_foreach(kube_at(picture, "restore_order"), i, entry)
	{
		if (kube_is(entry, "matters") || details)
			cmd_outf("%s  the server restores %s before %s, or does not order them\n",
				 kube_is(entry, "matters") ? "warning:" : "note:   ",
				 shown(entry, "second"), shown(entry, "first"));
	}
	json_array_foreach(kube_at(picture, "notes"), i, entry)
	{
		cmd_outf("not read:  %s\n", json_string_value(entry));
	}
}

static void velero_print_picture(const json_t *picture, bool details)
{
	int64_t total = 0, done = 0;

	cmd_out_fact("name", "%s", shown(picture, "name"));
	cmd_out_fact("phase", "%s", shown(picture, "phase"));
	cmd_out_fact("started", "%s", shown(picture, "started"));
	cmd_out_fact("completed", "%s", shown(picture, "completed"));
	cmd_out_fact("location", "%s", shown(picture, "location"));
	if (kube_i64(picture, &total, "items", "total") &&
	    kube_i64(picture, &done, "items", "done"))
		cmd_out_fact("items", "%" PRId64 " of %" PRId64, done, total);
	velero_print_csi(picture, details);
	velero_print_work(picture, "volumes", "volume snapshots", details);
	velero_print_work(picture, "uploads", "uploads", details);
	velero_print_rest(picture, details);
}

static int velero_describe_run(struct cairn_err *err)
{
	const struct velero_describe_options *o = &velero_describe_options;
	cairn_cleanup(repo_store_closep) struct repo_store *store = NULL;
	cairn_cleanup(kube_client_freep) struct kube_client *client = NULL;
	struct velero_describe what = {.name = o->name, .ns = o->ns, .details = o->details};
	kube_auto_json json_t *picture = NULL;
	int rc = o->store ? velero_open_store(o, &store, err) : velero_connect(o, &client, err);

	what.store = store;
	what.client = client;
	if (!rc)
		rc = velero_describe(&what, &picture, err);
	if (rc)
		return rc;
	if (cmd_options.output == CMD_OUTPUT_TABLE) {
		velero_print_picture(picture, o->details);
		return 0;
	}
	cairn_auto_free char *text = kube_json_text(picture, NULL);

	if (!text)
		return cairn_err_nomem(err, "a description");
	cmd_outf("%s\n", text);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct command *const commands[] = {&cmd_velero, NULL};
	static const struct command_runner runners[] = {
		{.command = &cmd_velero_describe, .run = velero_describe_run},
		{.command = NULL},
	};
	static const struct role role = {.commands = commands, .runners = runners};

	return role_main(&role, argc, argv);
}
