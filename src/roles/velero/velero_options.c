/* SPDX-License-Identifier: Apache-2.0 */

#include "roles/velero/velero_options.h"

#include "base/err.h"
#include "base/flags.h"
#include "cli/commands.h"
#include "roles/server_flags.h"

struct velero_describe_options velero_describe_options = {.ns = "velero"};

static const struct cairn_flag velero_describe_flags[] = {
	SERVER_FLAG_KUBECONFIG(velero_describe_options.kubeconfig),
	CAIRN_FLAG_VALUE(STRING, "velero-namespace", velero_describe_options.ns, "NAME",
			 "of the Velero server (default: velero)"),
	CAIRN_FLAG_SWITCH("details", velero_describe_options.details,
			  "list snapshots, handles and the order of restores"),
	CAIRN_FLAG_VALUE(STRING, "store", velero_describe_options.store, "LOCATION",
			 "read this object store alone, without a cluster"),
	CAIRN_FLAG_VALUE(STRING, "region", velero_describe_options.region, "NAME",
			 "of the store (default: us-east-1)"),
	CAIRN_FLAG_VALUE(STRING, "credentials", velero_describe_options.credentials, "FILE",
			 "AWS credentials of the store (default: the environment)"),
	CAIRN_FLAG_VALUE(STRING, "profile", velero_describe_options.profile, "NAME",
			 "of that file (default: default)"),
	CAIRN_FLAG_VALUE(STRING, "ca-file", velero_describe_options.ca_file, "FILE",
			 "authority of the store's certificate, PEM"),
	CAIRN_FLAG_END,
};

static int velero_describe_check(int argc, char **argv, struct cairn_err *err)
{
	const struct velero_describe_options *o = &velero_describe_options;

	(void)argc;
	velero_describe_options.name = argv[0];
	if (!o->store && (o->region || o->credentials || o->profile || o->ca_file))
		return cmd_usage(err, "--region, --credentials, --profile and --ca-file need "
				      "--store");
	return 0;
}

const struct command cmd_velero_describe = {
	.name = "describe",
	.summary = "show everything about a Velero backup",
	.about = "Also while it runs. With --store only the object store is read: the place that\n"
		 "holds the directory backups, such as s3:https://HOST/BUCKET/PREFIX.\n",
	.args = (const struct cmd_arg[]){{.name = "BACKUP", .kind = CMD_ARG_TEXT}, CMD_ARG_END},
	.flags = velero_describe_flags,
	.has_output = true,
	.check = velero_describe_check,
};

const struct command cmd_velero = {
	.name = "velero",
	.summary = "show Velero's backups",
	.about =
		"Shows what a Velero server, Cairn's plugin and its data mover report about a backup.\n",
	.program = "velero",
	.subcommands = (const struct command *const[]){&cmd_velero_describe, NULL},
};
