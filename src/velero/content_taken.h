/* SPDX-License-Identifier: Apache-2.0 */

/* Contents that are made for a snapshot which the storage has already.
 *
 * The storage snapshot is deleted with such a content only if the content was taken over before:
 * the snapshot controller has added its finalizer, and the driver's controller the handle to the
 * status. A content that is deleted earlier disappears, and the storage snapshot stays. */
#ifndef CAIRN_VELERO_CONTENT_TAKEN_H
#define CAIRN_VELERO_CONTENT_TAKEN_H

#include <jansson.h>
#include <stdbool.h>

struct cairn_err;
struct kube_call;
struct kube_client;
struct kube_ref;

/* Pure. Was the content made for a snapshot that existed, and is not taken over yet? `handle` is
 * the name of the status's field. */
bool velero_content_is_untaken(const json_t *content, const char *handle);

/* Waits until it is taken over, or the driver says that it does not have the snapshot. Any other
 * error of the driver may pass.
 *
 * CAIRN_DEADLINE  not in a minute: no controller has seen it, or the driver reports an error
 * CAIRN_ABORTED   it was deleted meanwhile, so whether the storage's was is not known
 */
int velero_content_wait_taken(struct kube_client *client, const struct kube_ref *ref,
			      const char *handle, const struct kube_call *how,
			      struct cairn_err *err);

#endif
