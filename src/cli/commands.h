/* SPDX-License-Identifier: Apache-2.0 */

/* Every command there is; commands.c puts them together. */
#ifndef CAIRN_CLI_COMMANDS_H
#define CAIRN_CLI_COMMANDS_H

#include "cli/command.h"

extern const struct command cmd_cairn;

extern const struct command cmd_pool_check;
extern const struct command cmd_pool_create;
extern const struct command cmd_pool_destroy;
extern const struct command cmd_pool_gc;
extern const struct command cmd_pool_info;
extern const struct command cmd_pool_quarantine;

extern const struct command cmd_volume_attach;
extern const struct command cmd_volume_adopt;
extern const struct command cmd_volume_create;
extern const struct command cmd_volume_delete;
extern const struct command cmd_volume_detach;
extern const struct command cmd_volume_expand;
extern const struct command cmd_volume_info;
extern const struct command cmd_volume_list;
extern const struct command cmd_volume_modify;
extern const struct command cmd_volume_path;
extern const struct command cmd_volume_rename;
extern const struct command cmd_volume_rollback;

extern const struct command cmd_snapshot_attach;
extern const struct command cmd_snapshot_create;
extern const struct command cmd_snapshot_delete;
extern const struct command cmd_snapshot_detach;
extern const struct command cmd_snapshot_info;
extern const struct command cmd_snapshot_list;
extern const struct command cmd_snapshot_path;
extern const struct command cmd_snapshot_prune;
extern const struct command cmd_snapshot_rename;

extern const struct command cmd_backup_command;
extern const struct command cmd_backup_copy_command;
extern const struct command cmd_backup_create_command;
extern const struct command cmd_backup_describe_command;
extern const struct command cmd_backup_forget_command;
extern const struct command cmd_backup_init_command;
extern const struct command cmd_backup_key_command;
extern const struct command cmd_backup_list_command;
extern const struct command cmd_backup_restore_command;
extern const struct command cmd_backup_verify_command;
extern const struct command cmd_mount_command;

extern const struct command cmd_conformance;
extern const struct command cmd_delta;
extern const struct command cmd_aggapi;
extern const struct command cmd_cbt_http;
extern const struct command cmd_diffsnap;
extern const struct command cmd_velero;
extern const struct command cmd_velero_describe;
extern const struct command cmd_velero_plugin;
extern const struct command cmd_driver;
extern const struct command cmd_list_command;
extern const struct command cmd_sidecar;
extern const struct command cmd_manager;
extern const struct command cmd_map;
extern const struct command cmd_verify_command;

extern const struct command cmd_plugin_backups;
extern const struct command cmd_plugin_complete;
extern const struct command cmd_plugin_delta;
extern const struct command cmd_plugin_map;
extern const struct command cmd_plugin_nodes;
extern const struct command cmd_plugin_snapshots;
extern const struct command cmd_plugin_volumes;

extern const struct command cmd_complete;
extern const struct command cmd_help;

#endif
