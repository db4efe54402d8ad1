/* SPDX-License-Identifier: Apache-2.0 */

/* Internal header of this directory. */
#ifndef CAIRN_VELERO_MOVER_IMPL_H
#define CAIRN_VELERO_MOVER_IMPL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "kube/kube_client.h"
#include "kube/kube_resource.h"
#include "velero/mover/mover_objects.h"
#include "velero/mover/mover_place.h"
#include "velero/mover/mover_request.h"
#include "velero/mover/mover_status.h"

struct cairn_err;
struct kube_controller;
struct kube_informer;
struct mover;

#define MOVER_LOOK_MS 1000U /* between two looks at work that goes on */

enum mover_kind {
	MOVER_UPLOADS,
	MOVER_DOWNLOADS,
	MOVER_FORGETS,
	MOVER_KINDS,
};

struct mover_part {
	struct mover *mover;
	enum mover_kind kind;
	struct kube_informer *informer;
	struct kube_controller *common;
};

struct mover {
	struct kube_client *client;
	const char *ns;
	struct mover_settings settings;
	struct mover_part parts[MOVER_KINDS];
};

/* One step for one object: what it works with, and when to look again. */
struct mover_job {
	struct mover *mover;
	const json_t *object; /* the request */
	const struct kube_resource *resource;
	struct kube_call how;
	uint64_t again_ms; /* UINT64_MAX: only when the object changes */
};

/* --- calls (mover_io.c) --- */

int mover_get(struct mover_job *job, const struct kube_resource *resource, const char *ns,
	      const char *name, json_t **ret, struct cairn_err *err);

/* An object of that name that was made for the same request is returned as if it were new. */
int mover_create(struct mover_job *job, const struct kube_resource *resource, const json_t *object,
		 json_t **ret, struct cairn_err *err);

/* Takes ownership of the merge patch; NULL is an error. A missing object is not an error if
 * `missing_ok`. */
int mover_patch(struct mover_job *job, const struct kube_resource *resource, const char *ns,
		const char *name, json_t *patch, bool missing_ok, struct cairn_err *err);

/* Deletes it, and all that it owns before it; *ret_gone is set to false if it still exists. */
int mover_remove(struct mover_job *job, const struct kube_resource *resource, const char *ns,
		 const char *name, bool *ret_gone, struct cairn_err *err);

/* Lets the storage's volume go with the PersistentVolume of the claim with these names, whatever
 * the class says. A volume of another claim stays as it is. */
int mover_discard_volume(struct mover_job *job, const char *name, const struct cluster_names *names,
			 struct cairn_err *err);

/* Patches the request itself; takes ownership. */
int mover_write(struct mover_job *job, json_t *patch, struct cairn_err *err);

/* The repository of the namespace at the location. */
int mover_find_place(struct mover_job *job, const char *location, const char *ns,
		     struct mover_place *ret, struct cairn_err *err);

/* Chooses a slot for another Job, and ends a Job that prunes the repository: *ret_busy is true
 * while that goes on. */
int mover_choose_slot(struct mover_job *job, const struct mover_place *place, unsigned *ret_slot,
		      bool *ret_busy, struct cairn_err *err);

/* True once the preparations have taken longer than `timeout_ms`. */
bool mover_is_late(const json_t *object, uint64_t timeout_ms);

/* --- Jobs (mover_follow.c) --- */

/* Reads the state of the Job: 1 when it has completed, 0 while it runs.
 *
 * CAIRN_PRECONDITION  it has failed for good, or was deleted
 */
int mover_look(struct mover_job *job, const char *name, struct mover_work *ret,
	       struct cairn_err *err);

/* Shows its progress in the request's status. */
int mover_show(struct mover_job *job, const struct mover_work *work, const char *claim,
	       struct cairn_err *err);

/* --- checks (mover_check.c) --- */

/* What an upload reads; owned by the caller. */
struct mover_found {
	json_t *snapshot, *content, *claim, *volume;
};

void mover_found_done(struct mover_found *found);

/* Reads the objects of an upload and checks that they belong together: the Backup exists and
 * made the snapshot, and the snapshot is of the volume of that claim. *ret_ready is false while
 * the snapshot is being made.
 *
 * CAIRN_PRECONDITION  they do not, or one is missing
 */
int mover_check_upload(struct mover_job *job, const struct mover_upload *upload,
		       struct mover_found *ret, bool *ret_ready, struct cairn_err *err);

/* *ret_left is true if the snapshot that the upload names was cut for its Backup and nothing else
 * needs it. The claim may be gone, and the Backup. *ret has the snapshot and its content. */
int mover_check_leftover(struct mover_job *job, const struct mover_upload *upload,
			 struct mover_found *ret, bool *ret_left, struct cairn_err *err);

/* That the Restore exists and restores the source namespace to the target's. */
int mover_check_restore(struct mover_job *job, const struct mover_download *download,
			struct cairn_err *err);

/* Also that the claim is unbound and waits for a volume with Velero's label. *ret is NULL while
 * there is no claim. */
int mover_check_download(struct mover_job *job, const struct mover_download *download, json_t **ret,
			 struct cairn_err *err);

/* --- steps --- */

/* Each does the next step for the object. A failure that is final is CAIRN_INVALID,
 * CAIRN_PRECONDITION or CAIRN_UNIMPLEMENTED; others are tried again. */
int mover_upload_prepare(struct mover_job *job, struct cairn_err *err);
int mover_upload_follow(struct mover_job *job, struct cairn_err *err);
int mover_upload_clean(struct mover_job *job, bool *ret_gone, struct cairn_err *err);
int mover_download_prepare(struct mover_job *job, struct cairn_err *err);
int mover_download_follow(struct mover_job *job, struct cairn_err *err);
int mover_download_clean(struct mover_job *job, bool *ret_gone, struct cairn_err *err);
int mover_forget(struct mover_job *job, struct cairn_err *err);

#endif
