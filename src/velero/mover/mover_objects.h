/* SPDX-License-Identifier: Apache-2.0 */

/* The objects that move one volume. Pure: trees in, trees out.
 *
 * All of one request have the name of the request's uid, so that a controller that begins
 * again finds what another one made. They are in Velero's namespace, where the secrets are,
 * and belong to the request, which a finalizer keeps until they are gone. A
 * VolumeSnapshotContent and a PersistentVolume have no namespace and thus no owner.
 */
#ifndef CAIRN_VELERO_MOVER_OBJECTS_H
#define CAIRN_VELERO_MOVER_OBJECTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "backup/cluster/cluster_objects.h"

struct cairn_err;
struct mover_download;
struct mover_place;
struct mover_upload;

#define MOVER_ROLE_UPLOAD   "upload"
#define MOVER_ROLE_DOWNLOAD "download"
#define MOVER_ROLE_FORGET   "forget"

#define MOVER_LABEL_SLOT "cairn.csi.dev/slot"
/* Of the snapshot in Velero's namespace: the original's content. */
#define MOVER_ANNOTATION_CONTENT "cairn.csi.dev/source-content"
/* Of a DataDownload: the volume that the Job writes. */
#define MOVER_ANNOTATION_VOLUME "cairn.csi.dev/volume"

#define MOVER_SLOTS_MAX 9U

/* What a deployment sets. */
struct mover_settings {
	const char *image;
	const char *service_account;
	const json_t *patch; /* merge patch of every Job; or NULL */
	unsigned per_node;   /* volumes that are moved at a time on one node */
	uint64_t deadline_s; /* of a Job */
};

/* Names and labels of a request's objects. `owner` is the request, `ns` Velero's namespace. */
int mover_names_of(const json_t *owner, const char *role, const char *claim,
		   const struct mover_place *place, struct cluster_names *ret,
		   struct cairn_err *err);

/* Was the PersistentVolume made for the claim with these names? It stays so when the claim is
 * gone. The annotation that names a volume may have been written by others. */
bool mover_is_volume_of(const json_t *volume, const struct cluster_names *names);

/* What an upload reads, as found in the cluster. All borrowed. */
struct mover_source {
	const json_t *claim, *volume;     /* that the snapshot was taken of */
	const json_t *snapshot, *content; /* as Velero made them */
	const json_t *storage_class;      /* of the Job's claim; NULL: unknown */
};

/* In all of these *ret is owned by the caller; `slot` is below mover_settings.per_node. */
int mover_upload_job(const struct mover_settings *settings, const struct mover_upload *upload,
		     const struct cluster_names *names, const struct mover_place *place,
		     const struct mover_source *source, const json_t *owner, unsigned slot,
		     json_t **ret, struct cairn_err *err);
int mover_upload_snapshot(const struct cluster_names *names, const struct mover_source *source,
			  const json_t *owner, json_t **ret, struct cairn_err *err);

/* `snapshot` is that of mover_upload_snapshot() as created. With `keep` the storage's snapshot
 * outlives the content. */
int mover_upload_content(const struct cluster_names *names, const struct mover_source *source,
			 const json_t *snapshot, bool keep, json_t **ret, struct cairn_err *err);

/* Name of the StorageClass of the Job's claim; NULL: the cluster's default. */
const char *mover_upload_class(const struct mover_upload *upload,
			       const struct mover_source *source);
int mover_upload_claim(const struct cluster_names *names, const struct mover_upload *upload,
		       const struct mover_source *source, const json_t *owner, json_t **ret,
		       struct cairn_err *err);

int mover_download_job(const struct mover_settings *settings, const struct mover_download *download,
		       const struct cluster_names *names, const struct mover_place *place,
		       const json_t *owner, unsigned slot, json_t **ret, struct cairn_err *err);

/* `target` is the claim that is restored. */
int mover_download_claim(const struct cluster_names *names, const struct mover_download *download,
			 const json_t *target, const json_t *owner, json_t **ret,
			 struct cairn_err *err);

/* The volume that `target` is to be bound to: that of `written`, under another name and in the
 * target's mode. `class_object` (or NULL) is its StorageClass. */
int mover_download_volume(const struct cluster_names *names, const json_t *written,
			  const json_t *target, const json_t *class_object, json_t **ret,
			  struct cairn_err *err);

/* Deletes backups and then the data that no other one needs. `words` are those of struct
 * velero_forget. */
int mover_forget_job(const struct mover_settings *settings, const struct cluster_names *names,
		     const struct mover_place *place, const char *const *words, json_t **ret,
		     struct cairn_err *err);

#endif
