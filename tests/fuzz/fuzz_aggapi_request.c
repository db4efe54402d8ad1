/* SPDX-License-Identifier: Apache-2.0 */

/* What a peer of the aggregated API server sends: a path, and a body as a
 * VolumeSnapshotDelta, a question and an answer. The first line is the path. */

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/driver_endpoint.h"
#include "kube/object.h"
#include "older/aggapi/aggapi_status.h"
#include "older/aggapi/aggapi_wire.h"
#include "older/aggapi/delta_pages.h"
#include "older/aggapi/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void as_delta(const char *body, size_t n, enum aggapi_validation validation)
{
	cairn_auto_buf struct cairn_buf warnings = CAIRN_BUF_INIT(4096);
	struct aggapi_refusal refusal = {0};
	struct aggapi_delta delta;

	if (aggapi_delta_parse(body, n, "app", validation, 256, &delta, &warnings, &refusal) == 0) {
		if (!delta.target || delta.limit == 0 || delta.limit > 256)
			abort();
		aggapi_delta_done(&delta);
	} else {
		json_t *status = aggapi_status_object(&refusal);

		if (refusal.http < 400)
			abort();
		json_decref(status);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	const uint8_t *end = memchr(data, '\n', n);
	char path[512];
	size_t len = end ? (size_t)(end - data) : 0;
	const char *body = end ? (const char *)end + 1 : (const char *)data;
	size_t body_len = end ? n - len - 1 : n;
	kube_auto_json json_t *json = NULL;
	struct aggapi_path parsed;

	if (len < sizeof(path)) {
		memcpy(path, data, len);
		path[len] = '\0';
		aggapi_path_parse(path, &parsed);
		if (!aggapi_name_valid(parsed.ns) || !aggapi_name_valid(parsed.name))
			abort();
	}
	as_delta(body, body_len, AGGAPI_STRICT);
	as_delta(body, body_len, AGGAPI_WARN);
	if (kube_json_parse(body, body_len, &json, NULL) == 0) {
		struct aggapi_question question;
		struct kube_driver_endpoint endpoint;

		if (aggapi_question_read(json, &question, NULL) == 0 && !question.to)
			abort();
		(void)aggapi_answer_check(json, 16, NULL);
		if (kube_driver_endpoint_read(json, &endpoint, NULL) == 0)
			kube_driver_endpoint_done(&endpoint);
	}
	(void)aggapi_failure_read(body, body_len, 500, NULL);
	return 0;
}
