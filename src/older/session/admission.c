/* SPDX-License-Identifier: Apache-2.0 */

#include "older/session/admission.h"

#include <string.h>

#include "base/err.h"
#include "kube/kinds.h"
#include "kube/object.h"

#define API_VERSION "admission.k8s.io/v1"

static bool admission_is(const char *text, const char *wanted)
{
	return text && strcmp(text, wanted) == 0;
}

static int admission_take_snapshots(struct session_admission *a, const json_t *list,
				    struct cairn_err *err)
{
	size_t n = json_array_size(list);

	if (n == 0 || n > SESSION_SNAPSHOTS_MAX)
		return cairn_err_set(err, CAIRN_INVALID, "spec.snapshots must name 1 to %u of them",
				     SESSION_SNAPSHOTS_MAX);
	for (size_t i = 0; i < n; i++) {
		const json_t *name = json_array_get(list, i);

		if (!json_is_string(name) || json_string_length(name) == 0 ||
		    strlen(json_string_value(name)) != json_string_length(name))
			return cairn_err_set(err, CAIRN_INVALID,
					     "spec.snapshots holds something that is not a name");
		a->snapshots[a->n_snapshots++] = json_string_value(name);
	}
	return 0;
}

int session_admission_parse(const char *body, size_t n, struct session_admission *ret,
			    struct cairn_err *err)
{
	const json_t *request;
	int rc;

	*ret = (struct session_admission){0};
	rc = kube_json_parse(body, n, &ret->review, err);
	if (rc)
		return rc;
	request = kube_at(ret->review, "request");
	ret->uid = kube_str(request, "uid");
	ret->ns = kube_str(request, "namespace");
	ret->user = kube_at(request, "userInfo");
	if (!admission_is(kube_str(ret->review, "apiVersion"), API_VERSION) ||
	    !admission_is(kube_str(ret->review, "kind"), "AdmissionReview") || !ret->uid)
		rc = cairn_err_set(err, CAIRN_INVALID, "the body is not an AdmissionReview");
	else if (!admission_is(kube_str(request, "resource", "group"), KUBE_CBT_GROUP) ||
		 !admission_is(kube_str(request, "resource", "resource"),
			       kube_snapshotsessionrequests.plural) ||
		 !admission_is(kube_str(request, "operation"), "CREATE") || !ret->ns ||
		 !ret->ns[0] || !json_is_object(ret->user))
		rc = cairn_err_set(err, CAIRN_INVALID,
				   "only the creation of a SnapshotSessionRequest is reviewed");
	else
		rc = admission_take_snapshots(ret, kube_at(request, "object", "spec", "snapshots"),
					      err);
	return rc;
}

void session_admission_done(struct session_admission *admission)
{
	json_decref(admission->review);
	*admission = (struct session_admission){0};
}

char *session_admission_answer(const char *uid, bool allowed, int http_code, const char *message)
{
	kube_auto_json json_t *answer =
		json_pack("{s:s, s:s, s:{s:s, s:b}}", "apiVersion", API_VERSION, "kind",
			  "AdmissionReview", "response", "uid", uid, "allowed", (int)allowed);
	json_t *status;

	if (answer && !allowed) {
		status = json_pack("{s:i, s:s}", "code", http_code, "message", message);
		if (kube_set(answer, NULL, status, "response", "status") != 0)
			return NULL;
	}
	return answer ? kube_json_text(answer, NULL) : NULL;
}
