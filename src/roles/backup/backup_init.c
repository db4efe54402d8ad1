/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/backup/backup_common.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/output_record.h"

int role_backup_init(const struct cmd_backup_init *options, struct cairn_err *err)
{
	cairn_cleanup(repo_closep) struct repo *repo = NULL;
	struct role_open how = {
		.password = ROLE_PASSWORD_NEW, .lock = REPO_LOCK_NONE, .init = true};
	struct cairn_json json;
	int rc = role_repo_open(options->repository, &how, &repo, err);

	if (rc)
		return rc;
	if (!role_json()) {
		if (!cmd_options.quiet)
			cmd_outf("repository %.8s is made\n", repo_config_id(repo));
		return 0;
	}
	cmd_json_begin(&json);
	cairn_json_object_begin(&json);
	cmd_json_field_string(&json, "id", repo_config_id(repo));
	cairn_json_object_end(&json);
	return cmd_json_end(&json, err);
}
