/* SPDX-License-Identifier: Apache-2.0 */

/* Backups of a cluster's PersistentVolumeClaims, and restores to them, for any
 * CSI driver.
 *
 * The work is done where the volume is: by a Job with the program's own image,
 * or, if the driver's socket is accessible, by this process after the driver
 * has published the volume here. The objects created for it (snapshot, claim,
 * Job) are always removed again; if this process is killed, by the Job's time
 * to live and by the next run for the same claim. Runs for one claim exclude
 * each other by a Lease.
 */
#ifndef CAIRN_BACKUP_CLUSTER_H
#define CAIRN_BACKUP_CLUSTER_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "backup/parent.h"
#include "backup/progress.h"

struct cairn_err;

/* Whether the snapshot is kept after the backup. */
enum cluster_base {
	CLUSTER_BASE_AUTO, /* kept unless the driver needs no base for a delta */
	CLUSTER_BASE_KEEP,
	CLUSTER_BASE_DELETE,
};

/* A device of this host and its origin. */
struct cluster_device {
	const char *path;
	const char *snapshot; /* VolumeSnapshot that it was made from; NULL for a restore */
	const char *objects;  /* JSON to keep with the backup; NULL for a restore */
};

/* How the work is done without a Job. */
struct cluster_direct {
	const char *endpoint; /* "unix:///…": the driver's socket; NULL: by a Job */

	/* Reads or writes the device. */
	int (*run)(void *arg, const struct cluster_device *device, struct cairn_err *err);

	/* Describes the backup; *ret is owned by the caller. */
	int (*describe)(void *arg, json_t **ret, struct cairn_err *err);
	void *arg;
};

struct cluster_options {
	const char *kubeconfig; /* NULL: default search */
	const char *context;
	const char *ns;
	const char *claim;

	const char *snapshot;       /* of a backup: an existing one; NULL: one is created */
	const char *snapshot_class; /* NULL: the driver's */
	const char *storage_class;  /* NULL: as the claim has it */
	const char *mode;           /* of a restored claim; NULL: as it was */
	uint64_t size;              /* of a restored claim; 0: as it was */
	enum cluster_base base;

	const char *image; /* NULL: that of the pod we run in */
	const char *pod;   /* its name; in the namespace `ns` */
	const char *service_account;
	const char *secret;
	const char *ca_key;
	const char *repository;
	const char *repository_claim;
	const json_t *patch;
	const char *const *args;     /* of the command that runs in the Job */
	const char *const *describe; /* of the one that runs before a restore */
	struct cluster_direct direct;

	uint64_t ready_ms;   /* timeout for a snapshot, a volume or a pod to become ready */
	uint64_t timeout_ms; /* timeout for the work itself */
	uint64_t lock_ms;    /* how long to wait for another run of the same claim */

	atomic_bool *events_refused; /* shared by runs: the first that may not write Events says so;
				      * or NULL */

	struct backup_talk talk;
	struct backup_progress progress;
};

struct cluster_result {
	json_t *summary; /* result of the command in the Job; NULL if unknown */
	bool base_kept;
	char snapshot[64];
	char job[64];
};

void backup_cluster_result_done(struct cluster_result *result);

/* CAIRN_NOT_FOUND     no such claim, class, snapshot, secret …
 * CAIRN_PRECONDITION  the claim has no volume of a CSI driver, or several classes match
 * CAIRN_ABORTED       another run for the claim is in progress
 * CAIRN_DEADLINE      something was not ready in time; the text says what and why
 * CAIRN_CANCELLED     the progress said so
 * and the error of the command in the Job
 */
int backup_cluster_backup(const struct cluster_options *options, struct cluster_result *ret,
			  struct cairn_err *err);

/* CAIRN_EXISTS  the claim exists */
int backup_cluster_restore(const struct cluster_options *options, struct cluster_result *ret,
			   struct cairn_err *err);

#endif
