/* SPDX-License-Identifier: Apache-2.0 */

/* Any bytes as an answer of an API server and as that of a credential plugin.
 * What is read once is read the same from its own text. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "kube/exec_plugin.h"
#include "kube/global_init.h"
#include "kube/kube_client.h"
#include "kube/kube_status.h"
#include "kube/object.h"
#include "kube/timestamp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_object(const json_t *object)
{
	char key[KUBE_KEY_MAX];
	uint64_t ns;

	(void)kube_key(object, key);
	(void)kube_has_finalizer(object, "x");
	(void)kube_condition(object, "Ready");
	(void)kube_time_parse(kube_str(object, "metadata", "creationTimestamp"), &ns);
}

static void read_twice(const char *text, size_t size)
{
	kube_auto_json json_t *first = NULL;
	kube_auto_json json_t *second = NULL;
	size_t n;
	char *again;

	if (kube_json_parse(text, size, &first, NULL) < 0)
		return;
	read_object(first);
	again = kube_json_text(first, &n);
	if (!again || kube_json_parse(again, n, &second, NULL) < 0 || !json_equal(first, second))
		abort();
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct kube_exec_answer answer = {0};
	struct kube_status status = {0};
	struct cairn_err err = {0};

	kube_global_init();
	read_twice(text, size);
	if (kube_status_fail_body(text, size, 500, &status, &err) >= 0 || !err.msg[0])
		abort();
	if (kube_exec_parse(text, size, "client.authentication.k8s.io/v1", &answer, NULL) == 0 &&
	    !answer.token && !answer.cert)
		abort();
	kube_exec_answer_done(&answer);
	return 0;
}
