/* SPDX-License-Identifier: Apache-2.0 */

/* Deleting a VolumeSnapshotContent together with its storage snapshot. */
#ifndef CAIRN_VELERO_CONTENT_DISCARD_H
#define CAIRN_VELERO_CONTENT_DISCARD_H

#include <jansson.h>

struct cairn_err;
struct kube_call;
struct kube_client;

/* The storage's id of the snapshot; borrowed, or NULL. */
const char *velero_content_handle(const json_t *content);

/* Sets the policy to Delete, so that the storage snapshot is deleted too; then deletes the
 * VolumeSnapshot, if it and the content name each other, and the content, and waits until the
 * content is gone. Succeeds when there is none.
 *
 * CAIRN_DEADLINE  the driver does not delete the snapshot
 */
int velero_content_discard(struct kube_client *client, const json_t *content,
			   const struct kube_call *how, struct cairn_err *err);

#endif
