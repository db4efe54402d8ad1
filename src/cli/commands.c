/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/commands.h"

#include <stddef.h>

static const struct command cmd_pool = {
	.name = "pool",
	.summary = "make, inspect, check and remove the pool",
	.about =
		"A pool is a directory that holds volumes, their snapshots and the record of what\n"
		"changed between them.\n",
	.subcommands =
		(const struct command *const[]){
			&cmd_pool_create,
			&cmd_pool_info,
			&cmd_pool_check,
			&cmd_pool_quarantine,
			&cmd_pool_gc,
			&cmd_pool_destroy,
			NULL,
		},
};

static const struct command cmd_volume = {
	.name = "volume",
	.summary = "make, list, attach, grow and delete volumes",
	.about = "A volume is a block device of fixed size. VOLUME is its name or its id.\n",
	.subcommands =
		(const struct command *const[]){
			&cmd_volume_create,
			&cmd_volume_list,
			&cmd_volume_info,
			&cmd_volume_path,
			&cmd_volume_attach,
			&cmd_volume_detach,
			&cmd_volume_expand,
			&cmd_volume_modify,
			&cmd_volume_rename,
			&cmd_volume_rollback,
			&cmd_volume_adopt,
			&cmd_volume_delete,
			NULL,
		},
};

static const struct command cmd_snapshot = {
	.name = "snapshot",
	.summary = "make, list, attach and delete snapshots",
	.about = "A snapshot is what a volume held at one moment. SNAPSHOT is written\n"
		 "VOLUME@NAME, or is a snapshot's id.\n",
	.subcommands =
		(const struct command *const[]){
			&cmd_snapshot_create,
			&cmd_snapshot_list,
			&cmd_snapshot_info,
			&cmd_snapshot_path,
			&cmd_snapshot_attach,
			&cmd_snapshot_detach,
			&cmd_snapshot_rename,
			&cmd_snapshot_delete,
			&cmd_snapshot_prune,
			NULL,
		},
};

const struct command cmd_cairn = {
	.name = "cairn",
	.summary = "which blocks of a volume changed between two snapshots",
	.about = "Volumes and snapshots live in a pool: --pool DIR, else the directory in the\n"
		 "environment variable CAIRN_POOL, else /var/lib/cairn.\n",
	.subcommands =
		/* clang-format off: one a line, so that changes meet less often */
	(const struct command *const[]){
		&cmd_pool,
		&cmd_volume,
		&cmd_snapshot,
		&cmd_delta,
		&cmd_map,
		&cmd_verify_command,
		&cmd_list_command,
		&cmd_backup_command,
		&cmd_mount_command,
		&cmd_driver,
		&cmd_diffsnap,
		&cmd_aggapi,
		&cmd_cbt_http,
		&cmd_manager,
		&cmd_sidecar,
		&cmd_velero,
		&cmd_velero_plugin,
		&cmd_conformance,
		&cmd_help,
		&cmd_complete,
		NULL,
	},
	/* clang-format on */
};
