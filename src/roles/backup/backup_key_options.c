/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include "roles/backup/backup_options.h"

static struct cmd_backup_key options;

static const struct cairn_flag plain_flags[] = {
	CMD_REPOSITORY_FLAGS,
	CAIRN_FLAG_END,
};

static const struct cairn_flag new_flags[] = {
	CMD_REPOSITORY_FLAGS,
	{.name = "new-password-file",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.new_password_file,
	 .value_name = "FILE",
	 .help = "holds the new password (default: it is asked for)"},
	{.name = "new-password-command",
	 .kind = CAIRN_FLAG_STRING,
	 .target = &options.new_password_command,
	 .value_name = "COMMAND",
	 .help = "prints the new password"},
	CAIRN_FLAG_END,
};

static int call(enum cmd_key_action action, const char *id, struct cairn_err *err)
{
	options.repository = &cmd_repository;
	options.action = action;
	options.id = id;
	return cmd_backup_call("cairn_backup_key", &options, err);
}

static int run_list(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	return call(CMD_KEY_LIST, NULL, err);
}

static int run_add(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	return call(CMD_KEY_ADD, NULL, err);
}

static int run_remove(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	return call(CMD_KEY_REMOVE, argv[0], err);
}

static int run_passwd(int argc, char **argv, struct cairn_err *err)
{
	(void)argc;
	(void)argv;
	return call(CMD_KEY_PASSWD, NULL, err);
}

static const struct command list_command = {
	.name = "list",
	.summary = "list the keys of a repository",
	.about = "The key that the given password opened is marked with an asterisk.\n",
	.flags = plain_flags,
	.has_output = true,
	.run = run_list,
};

static const struct command add_command = {
	.name = "add",
	.summary = "add a key with another password",
	.about = "Each of the passwords opens the repository.\n",
	.flags = new_flags,
	.has_output = true,
	.run = run_add,
};

static const struct command remove_command = {
	.name = "remove",
	.summary = "remove a key",
	.about =
		"KEY is the beginning of its id. The key of the password in use stays, so there is\n"
		"always one that opens the repository.\n",
	.args = (const struct cmd_arg[]){{.name = "KEY", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = plain_flags,
	.has_output = true,
	.run = run_remove,
};

static const struct command passwd_command = {
	.name = "passwd",
	.summary = "change the password in use",
	.about = "A key with the new password is added and tried; then the old one is removed.\n",
	.flags = new_flags,
	.has_output = true,
	.run = run_passwd,
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
