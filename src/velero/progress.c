/* SPDX-License-Identifier: Apache-2.0 */

#include "velero/progress.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/lock.h"
#include "base/log.h"
#include "kube/object.h"
#include "velero/velero_names.h"
#include "velero/world.h"

#define STEP_NS CAIRN_NS_PER_SEC
#define END_MS  30000U /* the end is written although Velero may no longer be waiting */

/* At level info: a warning would count as one of the backup. */
static void log_once(struct velero_world *world, const char *kind, const struct cairn_err *err)
{
	bool logged;

	{
		cairn_scoped_lock(&world->lock);
		logged = world->progress_logged;
		world->progress_logged = true;
	}
	if (!logged)
		cairn_log(CAIRN_LOG_INFO, "there are no progress objects", CAIRN_STR("kind", kind),
			  CAIRN_STR("error", err->msg));
}

/* Replaces the object that an interrupted call left. */
static int replace(struct kube_client *client, const struct kube_ref *ref, const json_t *object,
		   const struct kube_call *how, struct cairn_err *err)
{
	kube_auto_json json_t *patch = json_pack(
		"{s:{s:O*}, s:O, s:O}", "metadata", "labels", kube_at(object, "metadata", "labels"),
		"spec", kube_at(object, "spec"), "status", kube_at(object, "status"));

	if (!patch)
		return cairn_err_nomem(err, "a patch");
	return kube_patch(client, ref, KUBE_PATCH_MERGE, patch, how, NULL, err);
}

void velero_progress_begin(struct velero_progress *p, struct velero_world *world,
			   const struct kube_resource *resource, const json_t *object,
			   const struct kube_call *how)
{
	struct kube_client *client;
	struct cairn_err err = {0};
	int64_t total = 0;
	int rc = velero_world_client(world, &client, &err);

	*p = (struct velero_progress){.world = world, .resource = resource};
	snprintf(p->name, sizeof(p->name), "%s", kube_name(object));
	(void)kube_i64(object, &total, "status", "progress", "TotalBytes");
	p->total = total > 0 ? (uint64_t)total : 0;
	p->written_ns = cairn_monotonic_ns();
	if (!rc)
		rc = kube_create(client, KUBE_REF(resource, world->ns, NULL), object, how, NULL,
				 &err);
	if (rc == CAIRN_EXISTS)
		rc = replace(client, KUBE_REF(resource, world->ns, p->name), object, how, &err);
	if (rc) {
		log_once(world, resource->kind, &err);
		p->resource = NULL;
	}
}

static void progress_write(struct velero_progress *p, const json_t *patch,
			   const struct kube_call *how)
{
	struct kube_client *client;
	struct cairn_err err = {0};
	int rc = velero_world_client(p->world, &client, &err);

	if (!rc)
		rc = kube_patch(client, KUBE_REF(p->resource, p->world->ns, p->name),
				KUBE_PATCH_MERGE, patch, how, NULL, &err);
	if (rc)
		log_once(p->world, p->resource->kind, &err);
	p->written_ns = cairn_monotonic_ns();
}

void velero_progress_step(struct velero_progress *p, uint64_t done, uint64_t total,
			  const struct kube_call *how)
{
	kube_auto_json json_t *patch = NULL;

	if (!p->resource || cairn_monotonic_ns() - p->written_ns < STEP_NS)
		return;
	p->total = total;
	patch = json_pack("{s:{s:{s:I, s:I}}}", "status", "progress", "TotalBytes",
			  (json_int_t)total, "BytesDone", (json_int_t)done);
	if (patch)
		progress_write(p, patch, how);
}

void velero_progress_end(struct velero_progress *p, const char *id, uint64_t total,
			 const struct cairn_err *err)
{
	const struct kube_call how = {.timeout_ms = END_MS};
	kube_auto_json json_t *patch = NULL;
	struct cairn_err why = {0};

	if (!p->resource)
		return;
	if (total == 0)
		total = p->total;
	if (velero_progress_end_patch(p->resource, id, err ? err->msg : NULL, cairn_now_ns(),
				      err ? 0 : total, total, &patch, &why))
		log_once(p->world, p->resource->kind, &why);
	else
		progress_write(p, patch, &how);
}
