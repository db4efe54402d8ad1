/* SPDX-License-Identifier: Apache-2.0 */

/* A VolumeSnapshot with its content, its driver, and the driver's handles of snapshot and
 * volume.
 *
 * The only place that defines which VolumeSnapshot is usable:
 *   - it is ready and names its VolumeSnapshotContent;
 *   - the content names it back. A user may write a VolumeSnapshot that points
 *     at the content of another namespace, so one direction proves nothing. The
 *     uid is compared only when the content has one: a content made by hand has
 *     none until it is bound;
 *   - the content has a driver, is ready and has a snapshotHandle.
 * A status that does not mention readyToUse is not ready.
 */
#ifndef CAIRN_KUBE_SNAPSHOT_H
#define CAIRN_KUBE_SNAPSHOT_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;
struct kube_call;
struct kube_client;
struct kube_ref;

/* Label of a VolumeSnapshotContent whose driver runs on every node: the name of the Node whose
 * driver has the snapshot. */
#define KUBE_SNAPSHOT_NODE_LABEL "snapshot.storage.kubernetes.io/managed-by"

struct kube_snapshot {
	const char *name;
	const char *driver;
	const char *handle;        /* of the snapshot */
	const char *volume_handle; /* NULL where the content was made by hand */
	json_t *snapshot;          /* the others are borrowed from these two */
	json_t *content;
};

struct kube_snapshot_query {
	const char *ns;
	const char *name;
	const char *driver; /* required driver; NULL: any */

	/* Reads one object. Its error code is returned unchanged. */
	int (*get)(void *arg, const struct kube_ref *ref, json_t **ret, struct cairn_err *err);
	void *arg;
};

/* Reads the snapshot and its content and checks the rules above.
 *
 * CAIRN_UNAVAILABLE   not ready yet: retry
 * CAIRN_PRECONDITION  the content belongs to another snapshot, or has no driver
 * CAIRN_INVALID       it belongs to another driver than query->driver
 * or the codes of query->get
 */
int kube_snapshot_resolve(const struct kube_snapshot_query *query, struct kube_snapshot *ret,
			  struct cairn_err *err);

/* The same from the API server, for any driver. Codes as above, CAIRN_NOT_FOUND if the
 * snapshot or its content does not exist, and those of kube_get(). */
int kube_snapshot_get(struct kube_client *client, const char *ns, const char *name,
		      const struct kube_call *how, struct kube_snapshot *ret,
		      struct cairn_err *err);

/* True if the content names this VolumeSnapshot. A user can write which content a snapshot
 * names, but not which snapshot a content names. */
bool kube_snapshot_content_is_of(const json_t *content, const char *ns, const char *name,
				 const char *snapshot_uid);

/* Accepts a zeroed struct. Also a cleanup function. */
void kube_snapshot_done(struct kube_snapshot *snapshot);

#endif
