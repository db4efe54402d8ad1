/* SPDX-License-Identifier: Apache-2.0 */

#include "backup/cluster/cluster_objects.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backup/cluster/cluster_record.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "kube/kube_resource.h"
#include "kube/object.h"
#include "repo/repo_digest.h"

#define CLAIM_CHARS   30 /* characters of a claim's name in the names of a run */
#define DEFAULT_CLASS "snapshot.storage.kubernetes.io/is-default-class"

int backup_cluster_key(const char *text, char out[CLUSTER_KEY_MAX], struct cairn_err *err)
{
	unsigned char digest[EVP_MAX_MD_SIZE];

	if (EVP_Digest(text, strlen(text), digest, NULL, repo_sha256(), NULL) != 1)
		return cairn_err_nomem(err, "key");
	for (size_t i = 0; i < (CLUSTER_KEY_MAX - 1) / 2; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

/* "cairn-data-20261116054500-1a2b3c4d": characters other than letters and digits become '-'. */
static void name_run(const char *claim, uint64_t now_ns, struct cluster_names *names)
{
	time_t seconds = (time_t)(now_ns / CAIRN_NS_PER_SEC);
	char stem[CLAIM_CHARS + 1] = "";
	char when[20] = "";
	struct tm tm;
	size_t n = 0;

	for (; n < CLAIM_CHARS && claim[n]; n++)
		stem[n] = (char)(isalnum((unsigned char)claim[n]) ? claim[n] : '-');
	while (n > 0 && stem[n - 1] == '-')
		n--;
	stem[n] = '\0';
	if (gmtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%Y%m%d%H%M%S", &tm);
	snprintf(names->name, sizeof(names->name), "cairn-%s-%s-%.8s", stem, when, names->run);
}

int backup_cluster_names_make(const char *ns, const char *claim, const char *role,
			      const char *repository, uint64_t now_ns, struct cluster_names *ret,
			      struct cairn_err *err)
{
	struct cluster_names names = {.ns = ns, .claim = claim, .role = role};
	int rc = cairn_random_hex(names.run, (CLUSTER_RUN_MAX - 1) / 2, err);

	if (!rc)
		rc = backup_cluster_key(claim, names.key, err);
	if (!rc)
		rc = backup_cluster_key(repository ? repository : "", names.repository, err);
	if (rc)
		return rc;
	name_run(claim, now_ns, &names);
	*ret = names;
	return 0;
}

int backup_cluster_selector(const struct cluster_names *names, const char *role, char *out,
			    size_t size, struct cairn_err *err)
{
	int n = snprintf(out, size, CLUSTER_LABEL_CLAIM "=%s," CLUSTER_LABEL_ROLE "=%s", names->key,
			 role);

	if (n < 0 || (size_t)n >= size)
		return cairn_err_set(err, CAIRN_NO_SPACE, "selector");
	return 0;
}

/* --- parts of objects --- */

json_t *backup_cluster_owner_of(const json_t *object)
{
	const char *version = kube_str(object, "apiVersion");
	const char *kind = kube_str(object, "kind");

	return json_pack("{s:s,s:s,s:s,s:s,s:b}", "apiVersion", version ? version : "", "kind",
			 kind ? kind : "", "name", kube_name(object), "uid", kube_uid(object),
			 "blockOwnerDeletion", 0);
}

static json_t *labels_of(const struct cluster_names *names)
{
	return json_pack("{s:s,s:s,s:s,s:s,s:s}", "app.kubernetes.io/managed-by", "cairn",
			 CLUSTER_LABEL_ROLE, names->role, CLUSTER_LABEL_CLAIM, names->key,
			 CLUSTER_LABEL_RUN, names->run, CLUSTER_LABEL_REPOSITORY,
			 names->repository);
}

int backup_cluster_object_new(const struct kube_resource *resource,
			      const struct cluster_names *names, const char *name,
			      const json_t *owner, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *made = kube_object_new(resource, names->ns, name);
	int rc = made ? kube_set(made, err, labels_of(names), "metadata", "labels")
		      : cairn_err_nomem(err, "object");

	if (!rc)
		rc = kube_set(made, err, json_string(names->claim), "metadata", "annotations",
			      CLUSTER_ANNOTATION_OF);
	if (!rc && owner)
		rc = kube_set(made, err, json_pack("[o]", backup_cluster_owner_of(owner)),
			      "metadata", "ownerReferences");
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}

int backup_cluster_snapshot(const struct cluster_names *names, const char *of,
			    const char *snapshot_class, const json_t *owner, json_t **ret,
			    struct cairn_err *err)
{
	kube_auto_json json_t *made = NULL;
	int rc = backup_cluster_object_new(&kube_volumesnapshots, names, names->name, owner, &made,
					   err);

	if (!rc)
		rc = kube_set(made, err,
			      json_pack("{s:s,s:{s:s}}", "volumeSnapshotClassName", snapshot_class,
					"source", "persistentVolumeClaimName", of),
			      "spec");
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}

int backup_cluster_claim(const struct cluster_claim_spec *spec, json_t **ret, struct cairn_err *err)
{
	const char *name = spec->name ? spec->name : spec->names->name;
	kube_auto_json json_t *made = NULL;
	json_t *modes = spec->access_modes ? json_deep_copy(spec->access_modes)
					   : json_pack("[s]", "ReadWriteOnce");
	int rc = backup_cluster_object_new(&kube_persistentvolumeclaims, spec->names, name,
					   spec->owner, &made, err);

	if (rc) {
		json_decref(modes);
		return rc;
	}
	rc = kube_set(made, err,
		      json_pack("{s:o,s:s,s:{s:{s:s}}}", "accessModes", modes, "volumeMode",
				spec->mode, "resources", "requests", "storage", spec->size),
		      "spec");
	if (!rc && spec->storage_class)
		rc = kube_set(made, err, json_string(spec->storage_class), "spec",
			      "storageClassName");
	if (!rc && spec->snapshot)
		rc = kube_set(made, err,
			      json_pack("{s:s,s:s,s:s}", "apiGroup", kube_volumesnapshots.group,
					"kind", kube_volumesnapshots.kind, "name", spec->snapshot),
			      "spec", "dataSource");
	if (!rc)
		*ret = cairn_take(made);
	return rc;
}

/* --- what is kept with a backup --- */

static bool is_note_of_controller(const char *annotation)
{
	static const char *const prefixes[] = {
		"kubectl.kubernetes.io/",          "pv.kubernetes.io/",
		"volume.kubernetes.io/",           "volume.beta.kubernetes.io/",
		"snapshot.storage.kubernetes.io/", CLUSTER_RECORD_PREFIX,
	};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(annotation, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

static json_t *annotations_of(const json_t *object)
{
	json_t *from = kube_at(object, "metadata", "annotations");
	json_t *kept = json_object();
	const char *key;
	json_t *value;

	json_object_foreach(from, key, value)
	{
		if (!is_note_of_controller(key))
			json_object_set(kept, key, value);
	}
	return kept;
}

static json_t *metadata_of(const json_t *object)
{
	json_t *labels = kube_at(object, "metadata", "labels");
	json_t *annotations = annotations_of(object);
	json_t *made = json_pack("{s:s}", "name", kube_name(object));

	if (*kube_namespace(object))
		json_object_set_new(made, "namespace", json_string(kube_namespace(object)));
	if (json_object_size(labels) > 0)
		json_object_set_new(made, "labels", json_deep_copy(labels));
	if (json_object_size(annotations) > 0)
		json_object_set(made, "annotations", annotations);
	json_decref(annotations);
	return made;
}

json_t *backup_cluster_sanitised(const json_t *object)
{
	kube_auto_json json_t *made = kube_copy(object);
	const char *kind = kube_str(object, "kind");
	json_t *capacity;

	if (!made || json_object_set_new(made, "metadata", metadata_of(object)) != 0)
		return NULL;
	kube_remove(made, "spec", "claimRef", "uid");
	kube_remove(made, "spec", "claimRef", "resourceVersion");
	if (!kind || strncmp(kind, "PersistentVolume", strlen("PersistentVolume")) != 0)
		return cairn_take(made);
	capacity = json_incref(kube_at(made, "status", "capacity"));
	json_object_del(made, "status");
	if (capacity && kube_set(made, NULL, capacity, "status", "capacity") != 0)
		return NULL;
	return cairn_take(made);
}

/* --- patches, quantities, classes --- */

static int cluster_objects_merge(json_t *target, const json_t *patch, unsigned depth,
				 struct cairn_err *err)
{
	const char *key;
	json_t *value;
	int rc = 0;

	if (depth == CLUSTER_PATCH_DEPTH)
		return cairn_err_set(err, CAIRN_INVALID, "the patch is too deep");
	json_object_foreach((json_t *)(uintptr_t)patch, key, value)
	{
		json_t *old = json_object_get(target, key);

		if (json_is_null(value)) {
			json_object_del(target, key);
			continue;
		}
		if (!json_is_object(value)) {
			json_object_set(target, key, value);
			continue;
		}
		if (!json_is_object(old)) {
			old = json_object();
			json_object_set_new(target, key, old);
		}
		rc = cluster_objects_merge(old, value, depth + 1, err);
		if (rc)
			break;
	}
	return rc;
}

int backup_cluster_merge(json_t *target, const json_t *patch, struct cairn_err *err)
{
	return cluster_objects_merge(target, patch, 0, err);
}

/* The factor of a suffix; 0 when it is invalid. */
static double scale_of(const char *suffix)
{
	static const struct {
		const char *suffix;
		double scale;
	} known[] = {
		{"", 1},
		{"m", 1e-3},
		{"k", 1e3},
		{"M", 1e6},
		{"G", 1e9},
		{"T", 1e12},
		{"P", 1e15},
		{"E", 1e18},
		{"Ki", 1024.0},
		{"Mi", 1048576.0},
		{"Gi", 1073741824.0},
		{"Ti", 1099511627776.0},
		{"Pi", 1125899906842624.0},
		{"Ei", 1152921504606846976.0},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].suffix, suffix) == 0)
			return known[i].scale;
	return 0;
}

bool backup_cluster_quantity(const char *text, uint64_t *ret)
{
	double whole = 0;
	double part = 0;
	double place = 1;
	double value;
	const char *p = text;

	if (!isdigit((unsigned char)*p))
		return false;
	for (; isdigit((unsigned char)*p); p++)
		whole = whole * 10 + (*p - '0');
	if (*p == '.')
		for (p++; isdigit((unsigned char)*p); p++) {
			place /= 10;
			part += (*p - '0') * place;
		}
	value = (whole + part) * scale_of(p);
	if (scale_of(p) == 0 || value >= 9.2e18)
		return false;
	*ret = (uint64_t)value + ((double)(uint64_t)value < value);
	return true;
}

int backup_cluster_pick_class(const json_t *list, const char *driver, const char **ret,
			      struct cairn_err *err)
{
	const char *only = NULL;
	unsigned n = 0;
	size_t i;
	json_t *item;

	json_array_foreach(kube_at(list, "items"), i, item)
	{
		const char *of = kube_str(item, "driver");
		const char *marked = kube_annotation(item, DEFAULT_CLASS);

		if (!of || strcmp(of, driver) != 0)
			continue;
		n++;
		only = kube_name(item);
		if (marked && strcmp(marked, "true") == 0) {
			*ret = only;
			return 0;
		}
	}
	if (n == 0)
		return cairn_err_set(err, CAIRN_NOT_FOUND,
				     "there is no VolumeSnapshotClass for the driver %s", driver);
	if (n > 1)
		return cairn_err_set(
			err, CAIRN_PRECONDITION,
			"there are %u VolumeSnapshotClasses for the driver %s and none "
			"is the default: name one with --snapshot-class",
			n, driver);
	*ret = only;
	return 0;
}
