/* SPDX-License-Identifier: Apache-2.0 */

/* The kinds of group snapshots, the claims of a group, and which class it gets. */

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "kube/kube_client.h"
#include "kube/object.h"
#include "velero/group_snapshot.h"
#include "velero/velero_names.h"

#define API_GROUP         "groupsnapshot.storage.k8s.io"
#define CLAIM_ANNOTATION  "velero.io/csi-volume-group-snapshot-class"
#define GROUP_CLASS_LABEL "velero.io/csi-volumegroupsnapshot-class"
#define GROUP_KEY_MAX     384

static struct velero_group_kinds kinds_in(const char *version)
{
	return (struct velero_group_kinds){
		.snapshots = {.group = API_GROUP,
			      .version = version,
			      .plural = "volumegroupsnapshots",
			      .kind = "VolumeGroupSnapshot",
			      .namespaced = true},
		.contents = {.group = API_GROUP,
			     .version = version,
			     .plural = "volumegroupsnapshotcontents",
			     .kind = "VolumeGroupSnapshotContent"},
		.classes = {.group = API_GROUP,
			    .version = version,
			    .plural = "volumegroupsnapshotclasses",
			    .kind = "VolumeGroupSnapshotClass"},
	};
}

int velero_group_kinds(struct kube_client *client, const struct kube_call *how,
		       struct velero_group_kinds *ret, json_t **ret_classes, struct cairn_err *err)
{
	static const char *const versions[] = {"v1", "v1beta2", "v1beta1"};
	int rc = CAIRN_NOT_FOUND;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]) && rc == CAIRN_NOT_FOUND;
	     i++) {
		*ret = kinds_in(versions[i]);
		rc = kube_list(client, KUBE_REF(&ret->classes, NULL, NULL), NULL, how, ret_classes,
			       err);
	}
	return rc ? cairn_err_wrap(err, "VolumeGroupSnapshotClasses") : 0;
}

const char *velero_group_of(const json_t *claim, const json_t *backup, const char **ret_key)
{
	const char *key = kube_str(backup, "spec", "volumeGroupSnapshotLabelKey");
	const char *group;

	key = key && *key ? key : VELERO_LABEL_GROUP_DEFAULT;
	group = kube_label(claim, key);
	*ret_key = key;
	return group && *group ? group : NULL;
}

/* Keeps those that have the label and another name: the key comes from the Backup, and what it
 * means in a selector need not be one label. */
static int group_keep_others(const json_t *list, const json_t *claim, const char *key, json_t **ret,
			     struct cairn_err *err)
{
	kube_auto_json json_t *others = json_array();
	size_t i;
	json_t *other;
	bool failed = !others;

	json_array_foreach(kube_at(list, "items"), i, other)
	{
		if (!failed && strcmp(kube_name(other), kube_name(claim)) != 0 &&
		    cairn_text_same(kube_label(other, key), kube_label(claim, key)))
			failed = json_array_append(others, other) != 0;
	}
	if (failed)
		return cairn_err_nomem(err, "the claims of a group");
	*ret = cairn_take(others);
	return 0;
}

int velero_group_others(struct kube_client *client, const json_t *claim, const json_t *backup,
			const struct kube_call *how, json_t **ret, struct cairn_err *err)
{
	const char *key;
	const char *group = velero_group_of(claim, backup, &key);
	cairn_auto_free char *selector = cairn_printf("%s=%s", key, group ? group : "");
	struct kube_list_query query = {.label_selector = selector};
	kube_auto_json json_t *list = NULL;
	int rc = selector ? kube_list(client,
				      KUBE_REF(&kube_persistentvolumeclaims, kube_namespace(claim),
					       NULL),
				      &query, how, &list, err)
			  : cairn_err_nomem(err, "a selector");

	return rc ? rc : group_keep_others(list, claim, key, ret, err);
}

static bool group_class_is_of(const json_t *class_object, const char *driver)
{
	return cairn_text_same(kube_str(class_object, "driver"), driver);
}

static const json_t *group_class_named(const json_t *classes, const char *driver, const char *name)
{
	size_t i;
	json_t *class_object;

	json_array_foreach(kube_at(classes, "items"), i, class_object)
	{
		if (name && group_class_is_of(class_object, driver) &&
		    strcmp(kube_name(class_object), name) == 0)
			return class_object;
	}
	return NULL;
}

static const char *group_backup_annotation(const json_t *backup, const char *driver)
{
	char key[GROUP_KEY_MAX];
	int n = snprintf(key, sizeof(key), GROUP_CLASS_LABEL "_%s", driver);

	if (n < 0 || (size_t)n >= sizeof(key))
		return NULL;
	for (char *p = key; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	return kube_annotation(backup, key);
}

int velero_group_class_choose(const json_t *classes, const char *driver, const json_t *claim,
			      const json_t *backup, const json_t **ret, struct cairn_err *err)
{
	const json_t *found =
		group_class_named(classes, driver, kube_annotation(claim, CLAIM_ANNOTATION));
	size_t i, n = 0;
	json_t *class_object;

	if (!found)
		found = group_class_named(classes, driver, group_backup_annotation(backup, driver));
	json_array_foreach(kube_at(classes, "items"), i, class_object)
	{
		if (!found && group_class_is_of(class_object, driver) &&
		    kube_label(class_object, GROUP_CLASS_LABEL))
			found = class_object;
	}
	if (found) {
		*ret = found;
		return 0;
	}
	json_array_foreach(kube_at(classes, "items"), i, class_object)
	{
		if (group_class_is_of(class_object, driver) && n++ == 0)
			found = class_object;
	}
	if (n != 1)
		return cairn_err_set(err, CAIRN_PRECONDITION,
				     "driver %s has %zu VolumeGroupSnapshotClasses: label one "
				     "with " GROUP_CLASS_LABEL,
				     driver, n);
	*ret = found;
	return 0;
}
