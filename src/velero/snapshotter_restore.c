/* SPDX-License-Identifier: Apache-2.0 */

/* CreateVolumeFromSnapshot: a claim in Velero's namespace is made from the snapshot, or from its
 * copy in the repository if the storage's is gone, and its volume is kept when the claim goes. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "kube/object.h"
#include "velero/progress.h"
#include "velero/repository_copy.h"
#include "velero/restore_source.h"
#include "velero/snapshotter.h"
#include "velero/static_content.h"
#include "velero/velero_names.h"
#include "velero/watch_until.h"
#include "velero/world.h"

#define MADE_MS         (10U * 60U * 1000U)
#define ERROR_MS        30000U /* an error of the driver is final after this time */
#define CLEANUP_MS      60000U
#define OBJECT_NAME_MAX 32

struct making {
	const struct velero_snapshotter *s;
	struct kube_client *client;
	const char *text; /* of the id */
	struct velero_snapshot_id id;
	struct velero_restore_source source;
	char name[OBJECT_NAME_MAX];   /* of all objects */
	char copied[OBJECT_NAME_MAX]; /* of those for the copy in the repository; "": none */
	uint64_t deadline_ns;
};

/* What waiting remembers: since when the driver reports an error, and which. */
struct patience {
	uint64_t since_ns;
	uint64_t most_ns; /* how long an error may last */
	char text[200];
};

static int lose_patience(struct patience *p, const json_t *object, struct cairn_err *err)
{
	const char *text = kube_str(object, "status", "error", "message");

	if (!text) {
		p->since_ns = 0;
		return 0;
	}
	snprintf(p->text, sizeof(p->text), "%s", text);
	if (p->since_ns == 0)
		p->since_ns = cairn_monotonic_ns();
	if (cairn_monotonic_ns() - p->since_ns < p->most_ns)
		return 0;
	return cairn_err_set(err, CAIRN_INVALID, "the storage snapshot cannot be used: %s",
			     p->text);
}

static int is_ready_to_use(const json_t *snapshot, void *arg, struct cairn_err *err)
{
	int rc;

	if (!snapshot || kube_is_deleted(snapshot))
		return cairn_err_set(err, CAIRN_INVALID, "it was deleted during the restore");
	rc = lose_patience(arg, snapshot, err);
	return rc ? rc : kube_is(snapshot, "status", "readyToUse");
}

static int restored_is_bound(const json_t *claim, void *arg, struct cairn_err *err)
{
	(void)arg;
	if (!claim || kube_is_deleted(claim))
		return cairn_err_set(err, CAIRN_INVALID, "it was deleted during the restore");
	return cairn_text_same(kube_str(claim, "status", "phase"), "Bound");
}

/* Imports the storage snapshot as a VolumeSnapshot. A driver that does not know it reports that, or
 * leaves it not ready for ever; where there is a copy, it is not waited for long. */
static int import_snapshot(const struct making *m, uint64_t *ret_bytes, struct cairn_err *err)
{
	const struct velero_static_content wanted = {.id = &m->id,
						     .ns = m->s->world->ns,
						     .name = m->name,
						     .role = VELERO_ROLE_RESTORE,
						     .policy = "Retain",
						     .classes = m->source.classes};
	const struct kube_ref *ref = KUBE_REF(&kube_volumesnapshots, wanted.ns, m->name);
	kube_auto_json json_t *content = NULL, *snapshot = NULL, *ready = NULL;
	bool copied = m->id.moved.ns[0] != 0;
	struct patience patience = {.most_ns = copied ? 0 : ERROR_MS * CAIRN_NS_PER_MS};
	uint64_t soon = cairn_monotonic_ns() + ERROR_MS * CAIRN_NS_PER_MS;
	int rc = velero_static_content_object(&wanted, &content, err);

	if (!rc)
		rc = velero_static_snapshot_object(&wanted, &snapshot, err);
	if (!rc)
		rc = kube_create(m->client, KUBE_REF(&kube_volumesnapshotcontents, NULL, NULL),
				 content, &m->s->how, NULL, err);
	if (!rc)
		rc = kube_create(m->client, KUBE_REF(&kube_volumesnapshots, wanted.ns, NULL),
				 snapshot, &m->s->how, NULL, err);
	if (!rc)
		rc = velero_watch_until(m->client, ref, &m->s->how, copied ? soon : m->deadline_ns,
					is_ready_to_use, &patience, &ready, err);
	if (rc)
		return rc == CAIRN_INVALID && patience.since_ns
			       ? cairn_err_set(err, CAIRN_NOT_FOUND, "%s", patience.text)
			       : rc;
	*ret_bytes = velero_restore_size(ready, m->id.bytes);
	return 0;
}

/* Makes the claim and waits for its volume; *ret_pv is the caller's. */
static int make_volume(const struct making *m, uint64_t bytes, json_t **ret_pv,
		       struct cairn_err *err)
{
	const char *ns = m->s->world->ns;
	kube_auto_json json_t *claim = NULL, *bound = NULL;
	int rc = velero_restore_claim(&m->source, ns, m->name, bytes, m->id.block, &claim, err);

	if (!rc)
		rc = kube_create(m->client, KUBE_REF(&kube_persistentvolumeclaims, ns, NULL), claim,
				 &m->s->how, NULL, err);
	if (!rc)
		rc = velero_watch_until(
			m->client, KUBE_REF(&kube_persistentvolumeclaims, ns, m->name), &m->s->how,
			m->deadline_ns, restored_is_bound, NULL, &bound, err);
	if (rc)
		return rc;
	return kube_get(
		m->client,
		KUBE_REF(&kube_persistentvolumes, NULL, kube_str(bound, "spec", "volumeName")),
		&m->s->how, ret_pv, err);
}

/* Lets the volume outlive its claim, and labels it for SetVolumeID. */
static int keep_volume(const struct making *m, const json_t *pv, char **ret_handle,
		       struct cairn_err *err)
{
	const char *handle = kube_str(pv, "spec", "csi", "volumeHandle");
	kube_auto_json json_t *patch = NULL;
	cairn_auto_free char *copy = NULL;
	char label[VELERO_HANDLE_LABEL_MAX];
	int rc;

	if (!handle)
		return cairn_err_set(err, CAIRN_INTERNAL, "volume %s is not one of CSI",
				     kube_name(pv));
	rc = velero_handle_label(handle, label, err);
	if (rc)
		return rc;
	copy = cairn_strdup(handle);
	patch = json_pack("{s:{s:{s:s, s:s}}, s:{s:s}}", "metadata", "labels", VELERO_LABEL_ROLE,
			  VELERO_ROLE_RESTORE, VELERO_LABEL_HANDLE, label, "spec",
			  "persistentVolumeReclaimPolicy", "Retain");
	if (!patch || !copy)
		return cairn_err_nomem(err, "a patch");
	rc = kube_patch(m->client, KUBE_REF(&kube_persistentvolumes, NULL, kube_name(pv)),
			KUBE_PATCH_MERGE, patch, &m->s->how, NULL, err);
	if (!rc)
		*ret_handle = cairn_take(copy);
	return rc;
}

/* Removes the claim and the imported pair. The content's policy is Retain: the storage
 * snapshot stays. Has its own timeout, because Velero may no longer be waiting. */
static void clean_up(const struct making *m)
{
	const struct kube_call how = {.timeout_ms = CLEANUP_MS};
	const char *ns = m->s->world->ns;
	const struct kube_ref refs[] = {
		{.resource = &kube_persistentvolumeclaims, .ns = ns, .name = m->name},
		{.resource = &kube_persistentvolumeclaims, .ns = ns, .name = m->copied},
		{.resource = &kube_volumesnapshots, .ns = ns, .name = m->name},
		{.resource = &kube_volumesnapshotcontents, .name = m->name},
	};

	for (size_t i = 0; i < sizeof(refs) / sizeof(refs[0]); i++) {
		struct cairn_err err = {0};
		int rc = *refs[i].name ? kube_delete(m->client, &refs[i], NULL, &how, NULL, &err)
				       : 0;

		if (rc && rc != CAIRN_NOT_FOUND)
			cairn_log(CAIRN_LOG_WARN, "an object of a restore is left",
				  CAIRN_STR("kind", refs[i].resource->kind),
				  CAIRN_STR("name", refs[i].name), CAIRN_STR("error", err.msg));
	}
}

static int make_from_storage(const struct making *m, uint64_t *ret_bytes, json_t **ret_pv,
			     struct cairn_err *err)
{
	int rc = import_snapshot(m, ret_bytes, err);

	if (rc)
		return cairn_err_wrap(err, "VolumeSnapshot %s", m->name);
	rc = make_volume(m, *ret_bytes, ret_pv, err);
	return rc ? cairn_err_wrap(err, "claim %s/%s", m->s->world->ns, m->name) : 0;
}

/* The location has another name where the Backup was synchronised from the bucket. */
static void local_location(const struct making *m, struct velero_moved *moved)
{
	kube_auto_json json_t *backup = NULL;
	const char *name;

	if (kube_get(m->client, KUBE_REF(&velero_backups, m->s->world->ns, m->source.backup),
		     &m->s->how, &backup, NULL))
		return;
	name = kube_str(backup, "spec", "storageLocation");
	if (name)
		snprintf(moved->location, sizeof(moved->location), "%s", name);
}

static int make_from_copy(struct making *m, struct velero_progress *progress, json_t **ret_pv,
			  struct cairn_err *err)
{
	const char *ns = m->s->world->ns;
	const struct velero_copy copy = {
		.s = m->s, .client = m->client, .name = m->copied, .progress = progress};
	const struct kube_ref *ref = KUBE_REF(&kube_persistentvolumeclaims, ns, m->copied);
	kube_auto_json json_t *claim = NULL, *bound = NULL;
	struct velero_moved moved = m->id.moved;
	int rc;

	if (!m->source.restore)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "the running Restore cannot be determined");
	snprintf(m->copied, sizeof(m->copied), "%.28s-r", m->name);
	local_location(m, &moved);
	rc = velero_restore_empty_claim(&m->source, ns, m->copied, m->id.bytes, m->id.block, &claim,
					err);
	if (!rc)
		rc = kube_create(m->client, KUBE_REF(&kube_persistentvolumeclaims, ns, NULL), claim,
				 &m->s->how, NULL, err);
	if (!rc)
		rc = velero_copy_from_repository(&copy, m->source.restore, &moved, m->id.bytes,
						 err);
	if (!rc)
		rc = velero_watch_until(m->client, ref, &m->s->how,
					cairn_monotonic_ns() + MADE_MS * CAIRN_NS_PER_MS,
					restored_is_bound, NULL, &bound, err);
	return rc ? rc
		  : kube_get(m->client,
			     KUBE_REF(&kube_persistentvolumes, NULL,
				      kube_str(bound, "spec", "volumeName")),
			     &m->s->how, ret_pv, err);
}

/* Both have the same bytes; the storage's is faster, while it is there. */
static int restore_make_all(struct making *m, struct velero_progress *progress, char **ret,
			    uint64_t *ret_bytes, struct cairn_err *err)
{
	kube_auto_json json_t *pv = NULL;
	int rc = make_from_storage(m, ret_bytes, &pv, err);

	if ((rc == CAIRN_NOT_FOUND || rc == CAIRN_DEADLINE) && m->id.moved.ns[0]) {
		cairn_log(CAIRN_LOG_INFO, "the repository is used instead of the storage snapshot",
			  CAIRN_STR("snapshot", m->text), CAIRN_STR("error", err->msg));
		*ret_bytes = m->id.bytes;
		rc = make_from_copy(m, progress, &pv, err);
	}
	if (!rc)
		rc = keep_volume(m, pv, ret, err);
	clean_up(m);
	return rc;
}

static void restore_begin_progress(const struct making *m, const char *zone,
				   struct velero_progress *progress)
{
	const struct velero_volume_restore_info info = {
		.name = m->name,
		.restore = m->source.restore,
		.backup = m->source.backup,
		.snapshot_id = m->text,
		.provider = VELERO_SNAPSHOTTER,
		.volume_type = kube_name(m->source.storage_class),
		.zone = *zone ? zone : NULL,
	};
	kube_auto_json json_t *object = NULL;

	if (!velero_volume_restore_object(&info, m->s->world->ns, cairn_now_ns(), m->id.bytes,
					  &object, NULL))
		velero_progress_begin(progress, m->s->world, &velero_volume_restores, object,
				      &m->s->how);
}

static void restore_making_done(struct making *m)
{
	velero_restore_source_done(&m->source);
}

int velero_snapshotter_restore(const struct velero_snapshotter *s, const char *snapshot_id,
			       const char *volume_type, const char *zone, char **ret,
			       struct cairn_err *err)
{
	cairn_cleanup(restore_making_done) struct making m = {
		.s = s,
		.text = snapshot_id,
		.deadline_ns = cairn_monotonic_ns() + MADE_MS * CAIRN_NS_PER_MS};
	struct velero_progress progress = {0};
	uint64_t number, bytes = 0;
	int rc = velero_snapshot_id_parse(snapshot_id, &m.id, err);

	if (!rc)
		rc = velero_world_client(s->world, &m.client, err);
	if (!rc)
		rc = cairn_random_bytes(&number, sizeof(number), err);
	if (!rc)
		rc = velero_restore_source_find(s, m.id.driver, volume_type, zone, &m.source, err);
	if (rc)
		return rc;
	snprintf(m.name, sizeof(m.name), "velero-%016" PRIx64, number);
	restore_begin_progress(&m, zone, &progress);
	rc = restore_make_all(&m, &progress, ret, &bytes, err);
	velero_progress_end(&progress, rc ? NULL : *ret, bytes, rc ? err : NULL);
	if (rc)
		return cairn_err_wrap(err, "snapshot %.200s", snapshot_id);
	cairn_log(CAIRN_LOG_INFO, "volume made", CAIRN_STR("snapshot", snapshot_id),
		  CAIRN_STR("volume", *ret));
	return 0;
}
