/* SPDX-License-Identifier: Apache-2.0 */

/* Volume policies as users write them, in YAML. Whatever is in them, the volume gets one of the
 * known actions or the policies are refused. */

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "kube/object.h"
#include "velero/volume_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum velero_policy_action action = VELERO_POLICY_NONE;
	struct cairn_err err = {0};
	json_t *pv = json_pack("{s:{s:s}, s:{s:{s:s}, s:s, s:{s:s}}}", "metadata", "name", "pv",
			       "spec", "capacity", "storage", "10Gi", "storageClassName", "fast",
			       "csi", "driver", "d.io");
	json_t *pvc = json_pack("{s:{s:{s:s}}, s:{s:[s]}}", "metadata", "labels", "a", "1", "spec",
				"accessModes", "ReadWriteOnce");
	json_t *map = json_pack("{s:{s:s}, s:{s:o*}}", "metadata", "name", "m", "data", "p",
				json_stringn((const char *)data, size));
	int rc;

	must(pv && pvc && map);
	rc = velero_policy_match(map, pv, pvc, &action, &err);
	must(rc == 0 || rc == CAIRN_INVALID || rc == CAIRN_NO_SPACE);
	must(rc == err.code);
	must(rc == 0 || action == VELERO_POLICY_NONE);
	must(action <= VELERO_POLICY_CUSTOM);
	json_decref(pv);
	json_decref(pvc);
	json_decref(map);
	return 0;
}
