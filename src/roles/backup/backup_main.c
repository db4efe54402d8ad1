/* SPDX-License-Identifier: Apache-2.0 */

/* The program of `cairn backup` and `cairn mount`. */

#include <stddef.h>

#include "cli/commands.h"
#include "cli/suggest.h"
#include "roles/backup/backup_common.h"
#include "roles/role.h"

static int backup_init_run(struct cairn_err *err)
{
	return role_backup_init(&cmd_backup_init, err);
}

static int backup_create_run(struct cairn_err *err)
{
	const struct cmd_backup_create *options = &cmd_backup_create;

	if (options->selector)
		return role_backup_create_claims(options, err);
	return options->cluster.claim ? role_backup_create_cluster(options, err)
				      : role_backup_create(options, err);
}

static int backup_list_run(struct cairn_err *err)
{
	return role_backup_list(&cmd_backup_list, err);
}

static int backup_describe_run(struct cairn_err *err)
{
	return role_backup_describe(&cmd_backup_describe, err);
}

static int backup_restore_run(struct cairn_err *err)
{
	const struct cmd_backup_restore *options = &cmd_backup_restore;

	return options->cluster.claim ? role_backup_restore_cluster(options, err)
				      : role_backup_restore(options, err);
}

static int backup_verify_run(struct cairn_err *err)
{
	return role_backup_verify(&cmd_backup_verify, err);
}

static int backup_forget_run(struct cairn_err *err)
{
	return role_backup_forget(&cmd_backup_forget, err);
}

static int backup_copy_run(struct cairn_err *err)
{
	return role_backup_copy(&cmd_backup_copy, err);
}

static int backup_key_run(struct cairn_err *err)
{
	return role_backup_key(&cmd_backup_key, err);
}

static int mount_run(struct cairn_err *err)
{
	return role_mount(&cmd_mount, err);
}

int main(int argc, char **argv)
{
	static const struct command *const commands[] = {&cmd_backup_command, &cmd_mount_command,
							 NULL};
	static const struct command_runner runners[] = {
		{.command = &cmd_backup_init_command, .run = backup_init_run},
		{.command = &cmd_backup_create_command, .run = backup_create_run},
		{.command = &cmd_backup_list_command, .run = backup_list_run},
		{.command = &cmd_backup_describe_command, .run = backup_describe_run},
		{.command = &cmd_backup_restore_command, .run = backup_restore_run},
		{.command = &cmd_backup_verify_command, .run = backup_verify_run},
		{.command = &cmd_backup_forget_command, .run = backup_forget_run},
		{.command = &cmd_backup_copy_command, .run = backup_copy_run},
		{.command = &cmd_backup_key_command, .run = backup_key_run},
		{.command = &cmd_mount_command, .run = mount_run},
		{.command = NULL},
	};
	static const struct role role = {
		.commands = commands, .runners = runners, .suggest = cmd_suggest};

	return role_main(&role, argc, argv);
}
