/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include <stdio.h>
#include <string.h>

#include "backup/password.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"
#include "repo/keys.h"

static const struct cmd_column columns[] = {
	{.title = "KEY"}, {.title = "USER"}, {.title = "HOST"}, {.title = "CREATED"}};

static int backup_key_add_row(struct cmd_listing *listing, const struct repo_key_info *key,
			      struct cairn_err *err)
{
	char id[ROLE_SHORT_MAX];
	char marked[ROLE_SHORT_MAX + 1];
	char time[CMD_TIME_TEXT_MAX];
	const char *cells[] = {
		marked, *key->username ? key->username : "-", *key->hostname ? key->hostname : "-",
		key->damaged ? "damaged" : cmd_time_text((uint64_t)key->created_ns, time)};

	snprintf(marked, sizeof(marked), "%s%s", role_short_id(&key->id, id),
		 key->current ? "*" : "");
	return cmd_table_add(&listing->table, cells, err);
}

static void backup_key_add_json(struct cmd_listing *listing, const struct repo_key_info *key)
{
	char id[REPO_ID_TEXT_MAX];

	cairn_json_object_begin(&listing->json);
	cmd_json_field_string(&listing->json, "id", repo_id_format(&key->id, id));
	cmd_json_field_bool(&listing->json, "current", key->current);
	cmd_json_field_bool(&listing->json, "damaged", key->damaged);
	cmd_json_field_string(&listing->json, "user", key->username);
	cmd_json_field_string(&listing->json, "host", key->hostname);
	cmd_json_field_time(&listing->json, "created", (uint64_t)key->created_ns);
	cairn_json_object_end(&listing->json);
	if (cmd_options.output == CMD_OUTPUT_NDJSON)
		cairn_json_newline(&listing->json);
}

static int print_keys(struct repo *repo, struct cairn_err *err)
{
	cairn_cleanup(repo_key_list_done) struct repo_key_list list = {0};
	struct cmd_listing listing;
	int rc = repo_key_list(repo, &list, err);
	int rc_end;

	if (rc)
		return rc;
	cmd_listing_begin(&listing, "keys", columns, sizeof(columns) / sizeof(columns[0]));
	for (size_t i = 0; i < list.n && !rc; i++) {
		if (role_json())
			backup_key_add_json(&listing, &list.items[i]);
		else
			rc = backup_key_add_row(&listing, &list.items[i], err);
	}
	rc_end = cmd_listing_end(&listing, rc ? NULL : err);
	return rc ? rc : rc_end;
}

static int say_done(const char *what, const struct repo_id *id, struct cairn_err *err)
{
	char text[REPO_ID_TEXT_MAX];
	struct cairn_json json;

	if (!role_json()) {
		if (!cmd_options.quiet)
			cmd_outf("key %.8s is %s\n", repo_id_format(id, text), what);
		return 0;
	}
	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_field_string(&json, "event", what);
	cmd_json_field_string(&json, "id", repo_id_format(id, text));
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}

static int write_key(struct repo *repo, const struct cmd_backup_key *o, struct cairn_err *err)
{
	cairn_cleanup(backup_password_freep) char *password = NULL;
	struct password_spec spec = {.file = o->new_password_file,
				     .command = o->new_password_command,
				     .prompt = "new password: ",
				     .twice = true};
	struct repo_id id;
	int rc = backup_password_get(&spec, &password, err);

	if (rc)
		return cairn_err_wrap(err, "new password");
	if (o->action == CMD_KEY_ADD)
		rc = repo_key_add(repo, password, strlen(password), &id, err);
	else
		rc = repo_key_change(repo, password, strlen(password), &id, err);
	return rc ? rc : say_done("added", &id, err);
}

static int remove_key(struct repo *repo, const char *prefix, struct cairn_err *err)
{
	struct repo_id id;
	int rc = repo_key_remove(repo, prefix, &id, err);

	return rc ? rc : say_done("removed", &id, err);
}

int role_backup_key(const struct cmd_backup_key *options, struct cairn_err *err)
{
	static const enum repo_lock_kind locks[] = {[CMD_KEY_LIST] = REPO_LOCK_NONE,
						    [CMD_KEY_ADD] = REPO_LOCK_SHARED,
						    [CMD_KEY_REMOVE] = REPO_LOCK_EXCLUSIVE,
						    [CMD_KEY_PASSWD] = REPO_LOCK_EXCLUSIVE};
	cairn_cleanup(role_repo_close) struct repo *repo = NULL;
	struct role_open how = {.lock = locks[options->action]};
	int rc = role_repo_open(options->repository, &how, &repo, err);

	if (rc)
		return rc;
	switch (options->action) {
	case CMD_KEY_LIST:
		return print_keys(repo, err);
	case CMD_KEY_REMOVE:
		return remove_key(repo, options->id, err);
	case CMD_KEY_ADD:
	case CMD_KEY_PASSWD:
		break;
	}
	return write_key(repo, options, err);
}
