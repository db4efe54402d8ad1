/* SPDX-License-Identifier: Apache-2.0 */

/* What DataUpload and DataDownload ask for, and what is to be done with one next. Pure.
 *
 * Both kinds are written by Velero's item actions; anyone who may write to Velero's namespace
 * can forge one. A view holds only names that are valid in Kubernetes and ids that are hex
 * digits, because they become parts of URLs and arguments of a command. Whether the objects
 * that it names belong together is checked against the cluster (mover_check.h).
 *
 * Texts are borrowed from the object.
 */
#ifndef CAIRN_VELERO_MOVER_REQUEST_H
#define CAIRN_VELERO_MOVER_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct cairn_err;

#define MOVER_FINALIZER       "cairn.csi.dev/data-mover"
#define MOVER_PHASE_ACCEPTED  "Accepted"
#define MOVER_PHASE_PREPARED  "Prepared"
#define MOVER_PHASE_RUNNING   "InProgress"
#define MOVER_PHASE_CANCELING "Canceling"
#define MOVER_PHASE_CANCELED  "Canceled"
#define MOVER_PHASE_COMPLETED "Completed"
#define MOVER_PHASE_FAILED    "Failed"

#define MOVER_TIMEOUT_MS 600000U /* of preparations, where the object has none */

enum mover_step {
	MOVER_STEP_NONE,    /* nothing is left to be done */
	MOVER_STEP_ACCEPT,  /* new: check it and take it */
	MOVER_STEP_PREPARE, /* make the objects that the Job needs */
	MOVER_STEP_FOLLOW,  /* the Job runs or ran */
	MOVER_STEP_CANCEL,  /* end the work, then it is Canceled */
	MOVER_STEP_CLEAN,   /* it has ended: remove what was made */
};

enum mover_step mover_step_of(const json_t *object);

struct mover_upload {
	const char *ns, *name, *uid; /* of the DataUpload */
	const char *backup;          /* owner */
	const char *backup_uid;
	const char *source_ns, *claim, *snapshot;
	const char *storage_class; /* "" where none is named */
	const char *location;
	uint64_t timeout_ms;
	bool keep; /* the snapshot stays: it is copied, not moved */
};

/* CAIRN_INVALID  a field is missing or malformed; the text says which */
int mover_upload_view(const json_t *object, struct mover_upload *ret, struct cairn_err *err);

struct mover_download {
	const char *ns, *name, *uid;
	const char *restore; /* owner */
	const char *restore_uid;
	const char *source_ns;
	const char *target_ns, *claim;
	const char *backup_id; /* in the repository: 64 hex digits */
	const char *location;
	uint64_t size; /* 0 where it is unknown */
	uint64_t timeout_ms;
};

/* As mover_upload_view(). */
int mover_download_view(const json_t *object, struct mover_download *ret, struct cairn_err *err);

#endif
