/* SPDX-License-Identifier: Apache-2.0 */

#include "older/aggapi/aggapi_fields.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "kube/object.h"
#include "older/aggapi/aggapi_status.h"

#define TEXT_MAX 4096 /* limit of all warnings together */

struct level {
	const char *path; /* path of the object with these fields; "" is the root */
	const char *const *parts;
	const char *const *known;
};

static const struct level levels[] = {
	{"", (const char *const[]){NULL},
	 (const char *const[]){"apiVersion", "kind", "metadata", "spec", "status", NULL}},
	{"metadata.", (const char *const[]){"metadata", NULL},
	 (const char *const[]){"annotations", "creationTimestamp", "deletionGracePeriodSeconds",
			       "deletionTimestamp", "finalizers", "generateName", "generation",
			       "labels", "managedFields", "name", "namespace", "ownerReferences",
			       "resourceVersion", "selfLink", "uid", NULL}},
	{"spec.", (const char *const[]){"spec", NULL},
	 (const char *const[]){"baseVolumeSnapshotName", "targetVolumeSnapshotName", "mode",
			       "limit", "offset", "volumeSnapshotDeltaSecretRef", NULL}},
	{"spec.volumeSnapshotDeltaSecretRef.",
	 (const char *const[]){"spec", "volumeSnapshotDeltaSecretRef", NULL},
	 (const char *const[]){"name", "namespace", NULL}},
	{"status.", (const char *const[]){"status", NULL},
	 (const char *const[]){"changedBlockDeltas", "error", "state", "limit", "offset",
			       "continue", "volumeSizeBytes", "effectiveLimit", NULL}},
};

static bool is_known(const char *name, const char *const known[])
{
	for (size_t i = 0; known[i]; i++)
		if (strcmp(name, known[i]) == 0)
			return true;
	return false;
}

static unsigned aggapi_fields_collect(const json_t *object, const struct level *level,
				      unsigned found, struct cairn_buf *out)
{
	json_t *at =
		level->parts[0] ? kube_at_path(object, level->parts) : (json_t *)(uintptr_t)object;
	const char *name;
	json_t *value;

	json_object_foreach(at, name, value)
	{
		if (is_known(name, level->known) || found == AGGAPI_UNKNOWN_MAX)
			continue;
		cairn_buf_addf(out, "unknown field \"%s%.200s\"\n", level->path, name);
		found++;
	}
	return found;
}

int aggapi_fields_check(const json_t *object, enum aggapi_validation validation,
			struct cairn_buf *warnings, struct aggapi_refusal *refusal)
{
	cairn_auto_buf struct cairn_buf text = CAIRN_BUF_INIT(TEXT_MAX);
	unsigned found = 0;

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		found = aggapi_fields_collect(object, &levels[i], found, &text);
	if (found == 0)
		return 0;
	if (validation != AGGAPI_STRICT) {
		cairn_buf_add(warnings, text.data, text.len);
		return 0;
	}
	for (size_t i = 0; i + 1 < text.len; i++)
		if (text.data[i] == '\n')
			text.data[i] = ',';
	return aggapi_refuse(refusal, 400, "BadRequest", "strict decoding error: %.*s",
			     (int)(text.len > 0 ? text.len - 1 : 0), (const char *)text.data);
}
