/* SPDX-License-Identifier: Apache-2.0 */

/* Options of the commands about backups, and the flags that several of them have. */
#ifndef CAIRN_ROLES_BACKUP_OPTIONS_H
#define CAIRN_ROLES_BACKUP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/flags.h"
#include "roles/backup/backup_cluster_options.h"

struct cairn_err;

/* Which repository, and how it is opened; NULL: from the environment. */
struct cmd_repository {
	const char *location;
	const char *password_file;
	const char *password_command;
	const char *ca_file;
	uint64_t threads;
	uint64_t connections;
	uint64_t retry_ms;
	uint64_t limit_upload;   /* bytes a second; 0: no limit */
	uint64_t limit_download; /* bytes a second; 0: no limit */
	uint64_t object_lock;    /* days that new files are protected; 0: they are not */
};

extern struct cmd_repository cmd_repository;

#define CMD_REPOSITORY_FLAGS                                                                      \
	{.name = "repository",                                                                    \
	 .letter = 'r',                                                                           \
	 .kind = CAIRN_FLAG_STRING,                                                               \
	 .target = &cmd_repository.location,                                                      \
	 .value_name = "LOCATION",                                                                \
	 .help = "directory, s3:URL or rest:URL (or CAIRN_REPOSITORY)"},                          \
		{.name = "password-file",                                                         \
		 .kind = CAIRN_FLAG_STRING,                                                       \
		 .target = &cmd_repository.password_file,                                         \
		 .value_name = "FILE",                                                            \
		 .help = "holds the password (or RESTIC_PASSWORD_FILE)"},                         \
		{.name = "password-command",                                                      \
		 .kind = CAIRN_FLAG_STRING,                                                       \
		 .target = &cmd_repository.password_command,                                      \
		 .value_name = "COMMAND",                                                         \
		 .help = "prints the password (or RESTIC_PASSWORD_COMMAND)"},                     \
		{.name = "ca-file",                                                               \
		 .kind = CAIRN_FLAG_STRING,                                                       \
		 .target = &cmd_repository.ca_file,                                               \
		 .value_name = "FILE",                                                            \
		 .help = "certificates to trust instead of the system's"},                        \
		{.name = "connections",                                                           \
		 .kind = CAIRN_FLAG_U64,                                                          \
		 .target = &cmd_repository.connections,                                           \
		 .value_name = "N",                                                               \
		 .help = "requests at a time (default: 8, or 2 for a directory)"},                \
	{                                                                                         \
		.name = "retry", .kind = CAIRN_FLAG_DURATION, .target = &cmd_repository.retry_ms, \
		.value_name = "TIME",                                                             \
		.help = "retry failing requests for this time (default: 15m)"                     \
	}

/* How much of the line to the repository is used. */
#define CMD_LIMIT_FLAGS                                                         \
	{.name = "limit-upload",                                                \
	 .kind = CAIRN_FLAG_SIZE,                                               \
	 .target = &cmd_repository.limit_upload,                                \
	 .value_name = "RATE",                                                  \
	 .help = "bytes a second to the repository, as 10M"},                   \
	{                                                                       \
		.name = "limit-download", .kind = CAIRN_FLAG_SIZE,              \
		.target = &cmd_repository.limit_download, .value_name = "RATE", \
		.help = "bytes a second from the repository"                    \
	}

#define CMD_OBJECT_LOCK_FLAG                                                  \
	{                                                                     \
		.name = "object-lock", .kind = CAIRN_FLAG_U64,                \
		.target = &cmd_repository.object_lock, .value_name = "DAYS",  \
		.help = "stored objects cannot be deleted for this time (S3)" \
	}

#define CMD_THREADS_FLAG                                                                      \
	{                                                                                     \
		.name = "threads", .kind = CAIRN_FLAG_U64, .target = &cmd_repository.threads, \
		.value_name = "N", .help = "threads that work (default: one a processor)"     \
	}

#define CMD_METRICS_FLAG(options)                                                  \
	{                                                                          \
		.name = "metrics-file", .kind = CAIRN_FLAG_STRING,                 \
		.target = &(options).metrics_file, .value_name = "FILE",           \
		.help = "write metrics there for node_exporter, also of a failure" \
	}

#define CMD_TAG_FLAG(options, text)                                                   \
	{                                                                             \
		.name = "tag", .kind = CAIRN_FLAG_STRINGS, .target = &(options).tags, \
		.value_name = "TAGS", .help = (text)                                  \
	}

#define CMD_POOL_ID_FLAG(options)                                                           \
	{                                                                                   \
		.name = "pool-id", .kind = CAIRN_FLAG_STRING, .target = &(options).pool_id, \
		.value_name = "ID", .help = "only of the pool with this id or directory"    \
	}

/* Which of the repository's backups a name may mean. */
#define CMD_CHOICE_FLAGS(options)                                                     \
	{.name = "volume",                                                            \
	 .kind = CAIRN_FLAG_STRING,                                                   \
	 .target = &(options).volume,                                                 \
	 .value_name = "NAME",                                                        \
	 .help = "only backups of this volume, by name or id"},                       \
		CMD_POOL_ID_FLAG(options),                                            \
	{                                                                             \
		.name = "host", .kind = CAIRN_FLAG_STRING, .target = &(options).host, \
		.value_name = "NAME", .help = "only backups that this host recorded"  \
	}

#define CMD_BACKUP_NAMES                                                                       \
	"BACKUP is the beginning of a backup's id, VOLUME@SNAPSHOT, VOLUME (its newest), or\n" \
	"latest where the repository holds one volume or --volume chooses one.\n"

struct cmd_backup_init {
	const struct cmd_repository *repository;
};

/* A device of this host or, where `namespace_name` is given, one made from a snapshot of a
 * cluster. */
struct cmd_backup_device {
	const char *device;
	const char *namespace_name;
	const char *snapshot;
	const char *volume_id;
	const char *snapshot_id;
	const char *volume_name;
	const char *kubeconfig;
	const char *context;
	const char *address;
	const char *ca_file;
	const char *token_file;
	const char *objects_file;
	const char *objects; /* text; NULL: of the file */
	const char *service_account;
};

struct cmd_backup_create {
	const struct cmd_repository *repository;
	char **names; /* of volumes and snapshots */
	int n_names;
	bool all;             /* all volumes of the pool */
	bool keep_snapshot;   /* that was cut for the backup */
	bool init;            /* make the repository if there is none */
	const char *file;     /* of this host; or NULL */
	const char *changes;  /* list of what changed in `file` or the device; or NULL */
	bool live;            /* `file` or the device may be written meanwhile */
	const char *snapshot; /* NULL: `device`, or the claim of `cluster` */
	struct cmd_backup_device device;
	struct cmd_backup_cluster cluster;
	const char *selector; /* all claims with these labels; or NULL */
	uint64_t jobs;        /* of the selector's claims at a time */
	uint64_t jobs_per_node;
	int base; /* enum cluster_base */
	int mode; /* enum backup_mode: the first that is tried */
	const char *parent;
	const char *host;
	struct cairn_strings tags;
	const char *push_gateway;
	const char *metrics_file;
	int64_t compression;
	uint64_t fixed;   /* length of every chunk, for benchmarks; 0: chosen */
	uint64_t segment; /* length of segments, for tests; 0: chosen */
};

struct cmd_backup_list {
	const struct cmd_repository *repository;
	const char *volume; /* or NULL: all */
	const char *pool_id;
	struct cairn_strings tags;
};

struct cmd_backup_describe {
	const struct cmd_repository *repository;
	const char *id;
	const char *volume;
	const char *host;
	const char *pool_id;
};

struct cmd_backup_restore {
	const struct cmd_repository *repository;
	const char *id;
	const char *volume;
	const char *host;
	const char *pool_id;
	const char *to;
	const char *shown; /* shown in messages instead of `to`; or NULL */
	const char *path;
	const char *base;
	bool overwrite;
	bool other_volume;
	bool verify;
	struct cmd_backup_cluster cluster;
	const char *namespace_name;
	const char *kubeconfig;
	const char *context;
	const char *volume_mode;
	uint64_t size;
};

struct cmd_backup_verify {
	const struct cmd_repository *repository;
	const char *id; /* or NULL: all */
	bool quick;
	bool repair;
	const char *subset;
	bool protection; /* ask until when files cannot be deleted */
	const char *metrics_file;
};

struct cmd_backup_forget {
	const struct cmd_repository *repository;
	char **ids;
	int n_ids;
	const char *volume;
	const char *pool_id;
	struct cairn_strings tags;
	struct cairn_strings keep_tags;
	struct cairn_strings tagged; /* chosen like those that are named */
	const char *metrics_file;
	uint64_t last, hourly, daily, weekly, monthly, yearly, within_ms;
	bool prune;
	bool ignore_missing; /* backups named that do not exist */
	bool dry_run;
};

enum cmd_key_action {
	CMD_KEY_LIST,
	CMD_KEY_ADD,
	CMD_KEY_REMOVE,
	CMD_KEY_PASSWD,
};

struct cmd_backup_key {
	const struct cmd_repository *repository;
	enum cmd_key_action action;
	const char *id;
	const char *new_password_file;
	const char *new_password_command;
};

struct cmd_backup_copy {
	const struct cmd_repository *repository;
	struct cmd_repository from;
	char **ids;
	int n_ids;
};

struct cmd_mount {
	const struct cmd_repository *repository;
	const char *dir;
	bool allow_other;
};

/* Filled by the flags and arguments of the command. */
extern struct cmd_backup_init cmd_backup_init;
extern struct cmd_backup_create cmd_backup_create;
extern struct cmd_backup_list cmd_backup_list;
extern struct cmd_backup_describe cmd_backup_describe;
extern struct cmd_backup_restore cmd_backup_restore;
extern struct cmd_backup_verify cmd_backup_verify;
extern struct cmd_backup_forget cmd_backup_forget;
extern struct cmd_backup_copy cmd_backup_copy;
extern struct cmd_backup_key cmd_backup_key;
extern struct cmd_mount cmd_mount;

#endif
