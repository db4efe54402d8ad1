/* SPDX-License-Identifier: Apache-2.0 */

/* A VolumeSnapshot and what stands behind it: its content, its driver, and the
 * driver's own names of snapshot and volume.
 *
 * A snapshot is believed only when both objects name each other: anybody may
 * write a VolumeSnapshot that points at the content of somebody else.
 */
#ifndef CAIRN_KUBE_SNAPSHOT_H
#define CAIRN_KUBE_SNAPSHOT_H

#include <jansson.h>

struct cairn_err;
struct kube_call;
struct kube_client;

struct kube_snapshot {
	const char *name;
	const char *driver;
	const char *handle;        /* of the snapshot */
	const char *volume_handle; /* NULL where the content was made by hand */
	json_t *snapshot;          /* the others are borrowed from these two */
	json_t *content;
};

/* Looks at the two objects, taking a reference of each; `content` may be NULL,
 * and is asked for only after `snapshot` was found good (CAIRN_PRECONDITION
 * otherwise).
 *
 * CAIRN_UNAVAILABLE   not ready yet: look again
 * CAIRN_PRECONDITION  the two do not belong together
 */
int kube_snapshot_view(json_t *snapshot, json_t *content, struct kube_snapshot *ret,
		       struct cairn_err *err);

/* Gets both from the API server. Codes as above, CAIRN_NOT_FOUND when one of
 * them does not exist, and those of kube_get(). */
int kube_snapshot_get(struct kube_client *client, const char *ns, const char *name,
		      const struct kube_call *how, struct kube_snapshot *ret,
		      struct cairn_err *err);

/* Accepts one that is zeroed. Also a cleanup function. */
void kube_snapshot_done(struct kube_snapshot *snapshot);

#endif
