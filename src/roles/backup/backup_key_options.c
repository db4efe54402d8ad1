/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

struct cmd_backup_key cmd_backup_key = {.repository = &cmd_repository};

static const struct cairn_flag backup_key_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CAIRN_FLAG_END,
};

static const struct cairn_flag backup_key_new_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CAIRN_FLAG_VALUE(STRING, "new-password-file", cmd_backup_key.new_password_file, "FILE",
			 "holds the new password (default: it is asked for)"),
	CAIRN_FLAG_VALUE(STRING, "new-password-command", cmd_backup_key.new_password_command,
			 "COMMAND", "prints the new password"),
	CAIRN_FLAG_END,
};

static int backup_key_list_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	(void)err;
	cmd_backup_key.action = CMD_KEY_LIST;
	return 0;
}

static int backup_key_add_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	(void)err;
	cmd_backup_key.action = CMD_KEY_ADD;
	return 0;
}

static int backup_key_remove_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)err;
	cmd_backup_key.action = CMD_KEY_REMOVE;
	cmd_backup_key.id = argv[0];
	return 0;
}

static int backup_key_passwd_check(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	(void)err;
	cmd_backup_key.action = CMD_KEY_PASSWD;
	return 0;
}

static const struct command list_command = {
	.name = "list",
	.summary = "list the keys of a repository",
	.about = "The key that the given password opened is marked with an asterisk.\n",
	.flags = backup_key_flags,
	.has_output = true,
	.check = backup_key_list_check,
};

static const struct command add_command = {
	.name = "add",
	.summary = "add a key with another password",
	.about = "Each of the passwords opens the repository.\n",
	.flags = backup_key_new_flags,
	.has_output = true,
	.check = backup_key_add_check,
};

static const struct command remove_command = {
	.name = "remove",
	.summary = "remove a key",
	.about =
		"KEY is the beginning of its id. The key of the password in use stays, so there is\n"
		"always one that opens the repository.\n",
	.args = (const struct cmd_arg[]){{.name = "KEY", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = backup_key_flags,
	.has_output = true,
	.check = backup_key_remove_check,
};

static const struct command passwd_command = {
	.name = "passwd",
	.summary = "change the password in use",
	.about = "A key with the new password is added and tried; then the old one is removed.\n",
	.flags = backup_key_new_flags,
	.has_output = true,
	.check = backup_key_passwd_check,
};

const struct command cmd_backup_key_command = {
	.name = "key",
	.summary = "list, add and remove the passwords of a repository",
	.about =
		"A key file holds the repository's key, sealed with a password; a repository may have\n"
		"several. A user who knew a removed password may have kept the key itself.\n",
	.subcommands =
		(const struct command *const[]){
			&list_command,
			&add_command,
			&remove_command,
			&passwd_command,
			NULL,
		},
};
