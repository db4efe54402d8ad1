/* SPDX-License-Identifier: Apache-2.0 */

/* Deleting a group of snapshots: the storage deletes it as a whole, through its
 * VolumeGroupSnapshotContent, which is made where no object of this cluster has the handle. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/content_discard.h"
#include "velero/content_taken.h"
#include "velero/group_snapshot.h"
#include "velero/velero_names.h"
#include "velero/watch_until.h"

#define GROUP_GONE_MS 120000U

struct discarding {
	struct kube_client *client;
	const struct kube_call *how;
	const char *ns; /* for objects that are made */
	const char *driver, *handle;
	json_t *handles; /* of the group's snapshots; owned */
	struct velero_group_kinds kinds;
};

bool velero_group_has(const json_t *content)
{
	return kube_annotation(content, VELERO_ANNOTATION_GROUP) != NULL;
}

static int group_policy(const struct discarding *d, const struct kube_ref *ref,
			struct cairn_err *err)
{
	kube_auto_json json_t *patch = json_pack("{s:{s:s}}", "spec", "deletionPolicy", "Delete");
	int rc = patch ? kube_patch(d->client, ref, KUBE_PATCH_MERGE, patch, d->how, NULL, err)
		       : cairn_err_nomem(err, "a patch");

	return rc == CAIRN_NOT_FOUND ? 0 : rc;
}

static int group_is_gone(const json_t *object, void *arg, struct cairn_err *err)
{
	(void)arg;
	(void)err;
	return object == NULL;
}

static bool is_member(const struct discarding *d, const json_t *content)
{
	const char *handle = velero_content_handle(content);
	size_t i;
	json_t *one;

	if (!handle || !cairn_text_same(kube_str(content, "spec", "driver"), d->driver))
		return false;
	json_array_foreach(d->handles, i, one)
	{
		if (i > 0 && cairn_text_same(json_string_value(one), handle))
			return true;
	}
	return false;
}

/* Contents of snapshots of the group go with their VolumeSnapshots; the storage's are deleted with
 * the group only. */
static int group_drop_contents(const struct discarding *d, bool last, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *content;
	int rc = kube_list(d->client, KUBE_REF(&kube_volumesnapshotcontents, NULL, NULL), NULL,
			   d->how, &list, err);

	json_array_foreach(kube_at(list, "items"), i, content)
	{
		if (rc || !is_member(d, content))
			continue;
		rc = last ? velero_content_discard(d->client, content, d->how, err)
			  : group_policy(d,
					 KUBE_REF(&kube_volumesnapshotcontents, NULL,
						  kube_name(content)),
					 err);
	}
	return rc;
}

/* The group's content, its VolumeGroupSnapshot before it. */
static int group_drop(const struct discarding *d, const json_t *content, struct cairn_err *err)
{
	const json_t *of = kube_at(content, "spec", "volumeGroupSnapshotRef");
	const char *ns = kube_str(of, "namespace"), *name = kube_str(of, "name");
	const struct kube_ref *ref = KUBE_REF(&d->kinds.contents, NULL, kube_name(content));
	int rc = group_policy(d, ref, err);

	if (!rc && velero_content_is_untaken(content, "volumeGroupSnapshotHandle"))
		rc = velero_content_wait_taken(d->client, ref, "volumeGroupSnapshotHandle", d->how,
					       err);
	if (!rc && ns && name)
		rc = kube_delete(d->client, KUBE_REF(&d->kinds.snapshots, ns, name), NULL, d->how,
				 NULL, err);
	if (rc == CAIRN_NOT_FOUND)
		rc = 0;
	if (!rc)
		rc = kube_delete(d->client, ref, NULL, d->how, NULL, err);
	if (rc)
		return rc == CAIRN_NOT_FOUND ? 0 : rc;
	return velero_watch_until(d->client, ref, d->how,
				  cairn_monotonic_ns() + GROUP_GONE_MS * CAIRN_NS_PER_MS,
				  group_is_gone, NULL, NULL, err);
}

static bool group_content_is(const struct discarding *d, const json_t *content)
{
	const char *handle = kube_str(content, "status", "volumeGroupSnapshotHandle");

	if (!handle)
		handle = kube_str(content, "spec", "source", "groupSnapshotHandles",
				  "volumeGroupSnapshotHandle");
	return cairn_text_same(kube_str(content, "spec", "driver"), d->driver) &&
	       cairn_text_same(handle, d->handle);
}

static int group_drop_found(const struct discarding *d, bool *ret_found, struct cairn_err *err)
{
	kube_auto_json json_t *list = NULL;
	size_t i;
	json_t *content;
	int rc = kube_list(d->client, KUBE_REF(&d->kinds.contents, NULL, NULL), NULL, d->how, &list,
			   err);

	json_array_foreach(kube_at(list, "items"), i, content)
	{
		if (rc || !group_content_is(d, content))
			continue;
		*ret_found = true;
		rc = group_drop(d, content, err);
	}
	return rc;
}

/* Another cluster made the group: a content with its handles is made and deleted. */
static int group_drop_by_handle(const struct discarding *d, struct cairn_err *err)
{
	kube_auto_json json_t *object = NULL, *made = NULL, *handles = json_copy(d->handles);
	char name[32];
	uint64_t number;
	int rc = cairn_random_bytes(&number, sizeof(number), err);

	if (rc || !handles)
		return rc ? rc : cairn_err_nomem(err, "handles");
	json_array_remove(handles, 0);
	snprintf(name, sizeof(name), "velero-%016" PRIx64, number);
	object = kube_object_new(&d->kinds.contents, NULL, name);
	rc = object ? kube_set(object, err,
			       json_pack("{s:s, s:s, s:{s:{s:s, s:O}}, s:{s:s, s:s}}",
					 "deletionPolicy", "Delete", "driver", d->driver, "source",
					 "groupSnapshotHandles", "volumeGroupSnapshotHandle",
					 d->handle, "volumeSnapshotHandles", handles,
					 "volumeGroupSnapshotRef", "namespace", d->ns, "name",
					 name),
			       "spec")
		    : cairn_err_nomem(err, "a content");
	if (!rc)
		rc = kube_create(d->client, KUBE_REF(&d->kinds.contents, NULL, NULL), object,
				 d->how, &made, err);
	if (!rc)
		rc = group_drop(d, made, err);
	if (rc && made)
		(void)kube_delete(d->client, KUBE_REF(&d->kinds.contents, NULL, name), NULL, d->how,
				  NULL, NULL);
	return rc;
}

static void discarding_done(struct discarding *d)
{
	json_decref(d->handles);
}

int velero_group_discard(struct kube_client *client, const json_t *content, const char *ns,
			 const struct kube_call *how, struct cairn_err *err)
{
	const char *text = kube_annotation(content, VELERO_ANNOTATION_GROUP);
	cairn_cleanup(discarding_done) struct discarding d = {
		.client = client,
		.how = how,
		.ns = ns,
		.driver = kube_str(content, "spec", "driver")};
	kube_auto_json json_t *classes = NULL;
	bool found = false;
	int rc = text && d.driver ? kube_json_parse(text, strlen(text), &d.handles, err)
				  : CAIRN_INVALID;

	d.handle = json_string_value(json_array_get(d.handles, 0));
	if (rc || !d.handle)
		return cairn_err_set(err, CAIRN_INVALID, "content %s has no handles of a group",
				     kube_name(content));
	rc = velero_group_kinds(client, how, &d.kinds, &classes, err);
	if (!rc)
		rc = group_drop_contents(&d, false, err);
	if (!rc)
		rc = group_drop_found(&d, &found, err);
	if (!rc && !found)
		rc = group_drop_by_handle(&d, err);
	if (!rc)
		rc = group_drop_contents(&d, true, err);
	if (!rc)
		cairn_log(CAIRN_LOG_INFO, "group of snapshots deleted",
			  CAIRN_STR("handle", d.handle));
	return rc ? cairn_err_wrap(err, "group of snapshots '%.100s'", d.handle) : 0;
}
