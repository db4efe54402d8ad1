/* SPDX-License-Identifier: Apache-2.0 */

/* Backups of a claim of a cluster, and restores to one, of any CSI driver.
 *
 * The work is done where the volume is: by a Job with the program's own image,
 * or, where the driver's socket is at hand, by this process after the driver
 * has published the volume here. What is made for it (snapshot, claim, Job) is
 * taken away again whatever happens; who is killed leaves it to the Job's time
 * to live and to the next run for the same claim. Runs for one claim exclude
 * each other by a Lease.
 */
#ifndef CAIRN_BACKUP_CLUSTER_H
#define CAIRN_BACKUP_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "backup/parent.h"
#include "backup/progress.h"

struct cairn_err;

/* What becomes of the snapshot after the backup. */
enum cluster_base {
	CLUSTER_BASE_AUTO, /* kept unless the driver needs no base for a delta */
	CLUSTER_BASE_KEEP,
	CLUSTER_BASE_DELETE,
};

/* A device of this host and what is on it. */
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

	/* What a backup is of; *ret is the caller's. */
	int (*describe)(void *arg, json_t **ret, struct cairn_err *err);
	void *arg;
};

struct cluster_options {
	const char *kubeconfig; /* NULL: searched for */
	const char *context;
	const char *ns;
	const char *claim;

	const char *snapshot;       /* of a backup: one that exists; NULL: one is made */
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

	uint64_t ready_ms;   /* for a snapshot, a volume, a pod to be there */
	uint64_t timeout_ms; /* for the work itself */
	uint64_t lock_ms;    /* for another run of the same claim to end */

	struct backup_talk talk;
	struct backup_progress progress;
};

struct cluster_result {
	json_t *summary; /* what the command in the Job said; NULL where it is not known */
	bool base_kept;
	char snapshot[64];
	char job[64];
};

void cluster_result_done(struct cluster_result *result);

/* CAIRN_NOT_FOUND     no such claim, class, snapshot, secret …
 * CAIRN_PRECONDITION  the claim has no volume of a CSI driver, or several classes would do
 * CAIRN_ABORTED       another run for the claim goes on
 * CAIRN_DEADLINE      something was not ready in time; the text says what and why
 * CAIRN_CANCELLED     the progress said so
 * and what the command in the Job failed with
 */
int cluster_backup(const struct cluster_options *options, struct cluster_result *ret,
		   struct cairn_err *err);

/* CAIRN_EXISTS  there is such a claim */
int cluster_restore(const struct cluster_options *options, struct cluster_result *ret,
		    struct cairn_err *err);

#endif
