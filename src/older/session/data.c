/* SPDX-License-Identifier: Apache-2.0 */

/* Processes one SnapshotSessionData: deletes it when it has expired or its request is
 * gone. */

#include "older/session/session_controller_impl.h"

#include "base/clock.h"
#include "base/err.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/timestamp.h"

uint64_t session_time_left(const char *text)
{
	uint64_t end;
	uint64_t now = cairn_now_ns();

	if (!kube_time_parse(text, &end))
		return UINT64_MAX;
	return end > now ? (end - now) / CAIRN_NS_PER_MS + 1 : 0;
}

/* True for data of ours whose request no longer exists. */
static int is_orphan(struct session_controller *c, const json_t *data, bool *ret,
		     struct cairn_err *err)
{
	const char *uid = kube_label(data, SESSION_UID_LABEL);
	json_t **found = NULL;
	size_t n = 0;
	int rc;

	*ret = false;
	if (!uid)
		return 0;
	rc = kube_informer_find(c->requests, SESSION_BY_UID, uid, &found, &n, err);
	if (rc)
		return rc;
	kube_objects_free(found, n);
	*ret = n == 0;
	return 0;
}

int session_data_look(struct session_controller *c, const json_t *data, uint64_t *ret_again_ms,
		      struct cairn_err *err)
{
	struct kube_call how = kube_controller_call(c->common);
	struct kube_delete_options only = {.uid = kube_uid(data)};
	uint64_t left = session_time_left(kube_str(data, "spec", "expiryTime"));
	bool orphan = false;
	int rc = 0;

	*ret_again_ms = UINT64_MAX;
	if (kube_is_deleted(data))
		return 0;
	if (left > 0)
		rc = is_orphan(c, data, &orphan, err);
	if (rc)
		return rc;
	if (left > 0 && !orphan) {
		*ret_again_ms = left;
		return 0;
	}
	rc = kube_delete(c->options.client,
			 KUBE_REF(&kube_snapshotsessiondata, kube_namespace(data), kube_name(data)),
			 &only, &how, NULL, err);
	if (!rc)
		atomic_fetch_add(&c->expired, 1);
	return rc == CAIRN_ABORTED ? 0 : rc;
}
