/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/content_taken.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/watch_until.h"

#define TAKEN_MS 60000U

/* What csi-snapshotter writes when the driver does not have the snapshot: the gRPC code, or its own
 * words after an empty answer of ListSnapshots. */
static const char *const lost_words[] = {"code = NotFound", "can not find snapshot"};

struct taking {
	const char *handle;
	char last[200]; /* the driver's last error */
};

bool velero_content_is_untaken(const json_t *content, const char *handle)
{
	const char *text = kube_str(content, "status", handle);

	if (kube_is_deleted(content) ||
	    !(kube_at(content, "spec", "source", "snapshotHandle") ||
	      kube_at(content, "spec", "source", "groupSnapshotHandles")))
		return false;
	return !text || !*text || json_array_size(kube_at(content, "metadata", "finalizers")) == 0;
}

static bool taken_is_lost(const char *message)
{
	for (size_t i = 0; message && i < sizeof(lost_words) / sizeof(lost_words[0]); i++) {
		if (strstr(message, lost_words[i]))
			return true;
	}
	return false;
}

static int taken_is_done(const json_t *content, void *arg, struct cairn_err *err)
{
	struct taking *t = arg;
	const char *message = kube_str(content, "status", "error", "message");

	if (!content)
		return cairn_err_set(err, CAIRN_ABORTED, "it was deleted by another program");
	if (message)
		snprintf(t->last, sizeof(t->last), "%s", message);
	return taken_is_lost(message) || !velero_content_is_untaken(content, t->handle);
}

int velero_content_wait_taken(struct kube_client *client, const struct kube_ref *ref,
			      const char *handle, const struct kube_call *how,
			      struct cairn_err *err)
{
	struct taking t = {.handle = handle};
	int rc = velero_watch_until(client, ref, how,
				    cairn_monotonic_ns() + TAKEN_MS * CAIRN_NS_PER_MS,
				    taken_is_done, &t, NULL, err);

	if (rc == CAIRN_DEADLINE)
		rc = cairn_err_set(err, rc, "%s",
				   t.last[0] ? t.last : "no snapshot controller takes it over");
	return rc;
}
