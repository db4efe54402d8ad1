/* SPDX-License-Identifier: Apache-2.0 */

/* The Job that reads or writes a volume on the node where its device is. */

#include "backup/cluster/cluster_objects.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "kube/kube_resource.h"
#include "kube/object.h"

#define CONTAINER        "cairn"
#define GRACE_S          30
#define RETRIES          2
#define FIRST_CODE       2
#define LAST_CODE        16
#define CODE_ABORTED     10
#define CODE_UNAVAILABLE 14
#define CODE_USAGE       64

/* Appends to an array of the object, which is created if it is missing. */
static int cluster_job_append(json_t *object, const char *key, json_t *value, struct cairn_err *err)
{
	json_t *array = json_object_get(object, key);

	if (!array) {
		array = json_array();
		if (json_object_set_new(object, key, array) != 0) {
			json_decref(value);
			return cairn_err_nomem(err, "Job");
		}
	}
	return json_array_append_new(array, value) == 0 ? 0 : cairn_err_nomem(err, "Job");
}

static int cluster_job_add_volume(json_t *pod, json_t *container, const char *name,
				  const char *path, json_t *volume, struct cairn_err *err)
{
	int rc = volume && json_object_set_new(volume, "name", json_string(name)) == 0
			 ? cluster_job_append(pod, "volumes", volume, err)
			 : cairn_err_nomem(err, "Job");

	if (rc)
		return rc;
	return cluster_job_append(container, "volumeMounts",
				  json_pack("{s:s,s:s}", "name", name, "mountPath", path), err);
}

static json_t *of_claim(const char *claim)
{
	return json_pack("{s:{s:s}}", "persistentVolumeClaim", "claimName", claim);
}

static int add_device(json_t *pod, json_t *container, const char *claim, struct cairn_err *err)
{
	json_t *volume = of_claim(claim);
	int rc = volume && json_object_set_new(volume, "name", json_string("device")) == 0
			 ? cluster_job_append(pod, "volumes", volume, err)
			 : cairn_err_nomem(err, "Job");

	if (rc)
		return rc;
	return cluster_job_append(
		container, "volumeDevices",
		json_pack("{s:s,s:s}", "name", "device", "devicePath", CLUSTER_DEVICE), err);
}

/* An annotation of the pod as a file. */
static json_t *of_annotation(const char *field, const char *file)
{
	return json_pack("{s:{s:[{s:s,s:{s:s}}]}}", "downwardAPI", "items", "path", file,
			 "fieldRef", "fieldPath", field);
}

static int add_secret_files(const struct cluster_secret_file *files, json_t *pod, json_t *container,
			    struct cairn_err *err)
{
	int rc = 0;

	for (unsigned i = 0; files && files[i].secret && !rc; i++) {
		char name[16];

		snprintf(name, sizeof(name), "secret-%u", i);
		rc = cluster_job_add_volume(pod, container, name, files[i].directory,
					    json_pack("{s:{s:s,s:[{s:s,s:s}]}}", "secret",
						      "secretName", files[i].secret, "items", "key",
						      files[i].key, "path", files[i].key),
					    err);
	}
	return rc;
}

static int add_volumes(const struct cluster_job_spec *spec, json_t *pod, json_t *container,
		       struct cairn_err *err)
{
	int rc = 0;

	if (spec->device_claim)
		rc = add_device(pod, container, spec->device_claim, err);
	if (!rc && spec->mount_claim)
		rc = cluster_job_add_volume(pod, container, "files", "/files",
					    of_claim(spec->mount_claim), err);
	if (!rc && spec->repository_claim)
		rc = cluster_job_add_volume(pod, container, "repository", CLUSTER_REPOSITORY,
					    of_claim(spec->repository_claim), err);
	if (!rc && spec->ca_key)
		rc = cluster_job_add_volume(pod, container, "ca", CLUSTER_CA_DIR,
					    json_pack("{s:{s:s,s:[{s:s,s:s}]}}", "secret",
						      "secretName",
						      spec->secret ? spec->secret : "", "items",
						      "key", spec->ca_key, "path", "ca.crt"),
					    err);
	if (!rc && spec->objects)
		rc = cluster_job_add_volume(
			pod, container, "objects", "/cairn/objects",
			of_annotation("metadata.annotations['" CLUSTER_ANNOTATION_STORED "']",
				      "objects.json"),
			err);
	if (!rc && spec->ca)
		rc = cluster_job_add_volume(
			pod, container, "ca", CLUSTER_CA_DIR,
			of_annotation("metadata.annotations['" CLUSTER_ANNOTATION_CA "']",
				      "ca.crt"),
			err);
	return rc ? rc : add_secret_files(spec->files, pod, container, err);
}

static int add_environment(const struct cluster_job_spec *spec, json_t *container,
			   struct cairn_err *err)
{
	int rc = 0;

	if (spec->secret)
		rc = cluster_job_append(container, "envFrom",
					json_pack("{s:{s:s}}", "secretRef", "name", spec->secret),
					err);
	if (!rc && spec->repository)
		rc = cluster_job_append(container, "env",
					json_pack("{s:s,s:s}", "name", "CAIRN_REPOSITORY", "value",
						  spec->repository),
					err);
	for (const struct cluster_variable *v = spec->variables; v && v->name && !rc; v++)
		if (v->value)
			rc = cluster_job_append(
				container, "env",
				json_pack("{s:s,s:s}", "name", v->name, "value", v->value), err);
	return rc;
}

static json_t *make_container(const struct cluster_job_spec *spec)
{
	json_t *args = json_array();

	for (const char *const *arg = spec->args; *arg; arg++)
		json_array_append_new(args, json_string(*arg));
	return json_pack("{s:s,s:s,s:o,s:s,s:{s:{s:s,s:s},s:{s:s,s:s}},s:{s:b,s:b,s:{s:[s]}}}",
			 "name", CONTAINER, "image", spec->image, "args", args,
			 "terminationMessagePolicy", "FallbackToLogsOnError", "resources",
			 "requests", "cpu", "100m", "memory", "128Mi", "limits", "cpu", "4",
			 "memory", "2Gi", "securityContext", "allowPrivilegeEscalation", 0,
			 "readOnlyRootFilesystem", 1, "capabilities", "drop", "ALL");
}

/* The settings that the PodSecurity standard "restricted" requires. They are in the pod and
 * not in the container, so that a merge patch can change one field of them. The node's udev
 * gives block devices to the group of disks; a runtime that gives them to the container's user
 * needs no group. fsGroup is set only for a repository: on a restored volume the kubelet would
 * change the owners of all files. */
static int restrict_pod(const struct cluster_job_spec *spec, json_t *pod, struct cairn_err *err)
{
	int rc = kube_set(pod, err,
			  json_pack("{s:b,s:i,s:i,s:{s:s}}", "runAsNonRoot", 1, "runAsUser",
				    CLUSTER_USER, "runAsGroup", CLUSTER_USER, "seccompProfile",
				    "type", "RuntimeDefault"),
			  "securityContext");

	if (!rc && spec->device_claim)
		rc = kube_set(pod, err, json_pack("[i]", CLUSTER_DISK_GROUP), "securityContext",
			      "supplementalGroups");
	if (!rc && spec->repository_claim)
		rc = kube_set(pod, err, json_integer(CLUSTER_USER), "securityContext", "fsGroup");
	return rc;
}

/* A failure with cairn's own exit status would happen again, except for transient
 * ones; a disruption of the pod by the node would not. */
static json_t *failure_policy(void)
{
	json_t *codes = json_array();

	for (int code = FIRST_CODE; code <= LAST_CODE; code++)
		if (code != CODE_ABORTED && code != CODE_UNAVAILABLE)
			json_array_append_new(codes, json_integer(code));
	json_array_append_new(codes, json_integer(CODE_USAGE));
	return json_pack("{s:[{s:s,s:[{s:s,s:s}]},{s:s,s:{s:s,s:s,s:o}}]}", "rules", "action",
			 "Ignore", "onPodConditions", "type", "DisruptionTarget", "status", "True",
			 "action", "FailJob", "onExitCodes", "containerName", CONTAINER, "operator",
			 "In", "values", codes);
}

static int make_pod(const struct cluster_job_spec *spec, json_t **ret, struct cairn_err *err)
{
	kube_auto_json json_t *container = make_container(spec);
	kube_auto_json json_t *pod =
		json_pack("{s:s,s:i,s:b,s:b}", "restartPolicy", "Never",
			  "terminationGracePeriodSeconds", GRACE_S, "automountServiceAccountToken",
			  spec->asks_kubernetes, "enableServiceLinks", 0);
	int rc = container && pod ? add_volumes(spec, pod, container, err)
				  : cairn_err_nomem(err, "Job");

	if (!rc)
		rc = add_environment(spec, container, err);
	if (!rc)
		rc = restrict_pod(spec, pod, err);
	if (!rc && spec->service_account)
		rc = kube_set(pod, err, json_string(spec->service_account), "serviceAccountName");
	if (!rc && spec->node_affinity)
		rc = kube_set(pod, err, json_deep_copy(spec->node_affinity), "affinity",
			      "nodeAffinity");
	if (!rc)
		rc = kube_set(pod, err, json_pack("[O]", container), "containers");
	if (!rc)
		*ret = cairn_take(pod);
	return rc;
}

static int cluster_job_fill(const struct cluster_job_spec *spec, json_t *job, struct cairn_err *err)
{
	json_t *pod = NULL;
	json_t *labels = json_deep_copy(kube_at(job, "metadata", "labels"));
	int rc = make_pod(spec, &pod, err);

	if (rc) {
		json_decref(labels);
		return rc;
	}
	rc = kube_set(job, err,
		      json_pack("{s:i,s:I,s:I,s:o,s:{s:{s:o},s:o}}", "backoffLimit", RETRIES,
				"activeDeadlineSeconds", (json_int_t)spec->deadline_s,
				"ttlSecondsAfterFinished", (json_int_t)spec->keep_s,
				"podFailurePolicy", failure_policy(), "template", "metadata",
				"labels", labels, "spec", pod),
		      "spec");
	if (!rc && spec->objects)
		rc = kube_set(job, err, json_string(spec->objects), "spec", "template", "metadata",
			      "annotations", CLUSTER_ANNOTATION_STORED);
	if (!rc && spec->ca)
		rc = kube_set(job, err, json_string(spec->ca), "spec", "template", "metadata",
			      "annotations", CLUSTER_ANNOTATION_CA);
	return rc;
}

static int apply_patch(const struct cluster_job_spec *spec, const char *name, json_t *job,
		       struct cairn_err *err)
{
	int rc;

	if (!spec->patch)
		return 0;
	if (!json_is_object(spec->patch))
		return cairn_err_set(err, CAIRN_INVALID, "the patch of the Job is not an object");
	rc = backup_cluster_merge(job, spec->patch, err);
	if (!rc && (strcmp(kube_name(job), name) != 0 ||
		    strcmp(kube_namespace(job), spec->names->ns) != 0))
		rc = cairn_err_set(err, CAIRN_INVALID, "the patch changes the name of the Job");
	return rc;
}

int backup_cluster_job(const struct cluster_job_spec *spec, json_t **ret, struct cairn_err *err)
{
	char name[CLUSTER_NAME_MAX];
	kube_auto_json json_t *job = NULL;
	int rc;

	snprintf(name, sizeof(name), "%s%s", spec->names->name, spec->suffix ? spec->suffix : "");
	rc = backup_cluster_object_new(&kube_jobs, spec->names, name, spec->owner, &job, err);
	if (!rc)
		rc = cluster_job_fill(spec, job, err);
	if (!rc)
		rc = apply_patch(spec, name, job, err);
	if (!rc)
		*ret = cairn_take(job);
	return rc;
}
