/* SPDX-License-Identifier: Apache-2.0 */

/* Deleting a VolumeSnapshotContent together with its storage snapshot. */
#ifndef CAIRN_VELERO_CONTENT_DISCARD_H
#define CAIRN_VELERO_CONTENT_DISCARD_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;
struct kube_call;
struct kube_client;

/* The storage's id of the snapshot; borrowed, or NULL. */
const char *velero_content_handle(const json_t *content);

/* Is the content of this VolumeSnapshot? A status that names the content of another one must not
 * delete that one's storage snapshot. */
bool velero_content_is_of(const json_t *content, const json_t *snapshot);

/* Sets the policy to Delete, so that the storage snapshot is deleted too; then deletes the
 * VolumeSnapshot, if it and the content name each other, and the content, and waits until the
 * content is gone. Succeeds when there is none.
 *
 * CAIRN_DEADLINE  the driver does not delete the snapshot, or no controller takes the content over
 * CAIRN_ABORTED   velero_content_wait_taken()
 */
int velero_content_discard(struct kube_client *client, const json_t *content,
			   const struct kube_call *how, struct cairn_err *err);

#endif
