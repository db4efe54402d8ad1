/* SPDX-License-Identifier: Apache-2.0 */

#include "kube/kube_resource.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"

#define KIND(variable, group_, version_, plural_, kind_, namespaced_)        \
	const struct kube_resource kube_##variable = {.group = (group_),     \
						      .version = (version_), \
						      .plural = (plural_),   \
						      .kind = (kind_),       \
						      .namespaced = (namespaced_)}

KIND(nodes, "", "v1", "nodes", "Node", false);
KIND(pods, "", "v1", "pods", "Pod", true);
KIND(endpointslices, "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", true);
KIND(secrets, "", "v1", "secrets", "Secret", true);
KIND(configmaps, "", "v1", "configmaps", "ConfigMap", true);
KIND(serviceaccounts, "", "v1", "serviceaccounts", "ServiceAccount", true);
KIND(persistentvolumes, "", "v1", "persistentvolumes", "PersistentVolume", false);
KIND(persistentvolumeclaims, "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true);
KIND(events, "events.k8s.io", "v1", "events", "Event", true);
KIND(leases, "coordination.k8s.io", "v1", "leases", "Lease", true);
KIND(jobs, "batch", "v1", "jobs", "Job", true);
KIND(cronjobs, "batch", "v1", "cronjobs", "CronJob", true);
KIND(storageclasses, "storage.k8s.io", "v1", "storageclasses", "StorageClass", false);
KIND(csidrivers, "storage.k8s.io", "v1", "csidrivers", "CSIDriver", false);
KIND(csinodes, "storage.k8s.io", "v1", "csinodes", "CSINode", false);
KIND(volumesnapshots, "snapshot.storage.k8s.io", "v1", "volumesnapshots", "VolumeSnapshot", true);
KIND(volumesnapshotcontents, "snapshot.storage.k8s.io", "v1", "volumesnapshotcontents",
     "VolumeSnapshotContent", false);
KIND(volumesnapshotclasses, "snapshot.storage.k8s.io", "v1", "volumesnapshotclasses",
     "VolumeSnapshotClass", false);
KIND(snapshotmetadataservices, "cbt.storage.k8s.io", "v1beta1", "snapshotmetadataservices",
     "SnapshotMetadataService", false);
KIND(tokenreviews, "authentication.k8s.io", "v1", "tokenreviews", "TokenReview", false);
KIND(selfsubjectreviews, "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview",
     false);
KIND(subjectaccessreviews, "authorization.k8s.io", "v1", "subjectaccessreviews",
     "SubjectAccessReview", false);
KIND(selfsubjectaccessreviews, "authorization.k8s.io", "v1", "selfsubjectaccessreviews",
     "SelfSubjectAccessReview", false);

void kube_api_version(const struct kube_resource *resource, char out[KUBE_API_VERSION_MAX])
{
	snprintf(out, KUBE_API_VERSION_MAX, "%s%s%s", resource->group,
		 resource->group[0] ? "/" : "", resource->version);
}

void kube_url_escape(struct cairn_buf *out, const char *text)
{
	static const char digits[] = "0123456789ABCDEF";

	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		if ((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
		    (*p >= '0' && *p <= '9') || strchr("-._~", *p)) {
			cairn_buf_addc(out, (char)*p);
		} else {
			cairn_buf_addc(out, '%');
			cairn_buf_addc(out, digits[*p >> 4]);
			cairn_buf_addc(out, digits[*p & 15]);
		}
	}
}

/* "." and ".." survive encoding and would be interpreted as path steps. */
static int add_part(struct cairn_buf *out, const char *what, const char *part,
		    struct cairn_err *err)
{
	if (!part[0] || strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
		return cairn_err_set(err, CAIRN_INVALID, "'%s' is not a valid %s", part, what);
	cairn_buf_addc(out, '/');
	kube_url_escape(out, part);
	return 0;
}

static int check_namespace(const struct kube_ref *ref, struct cairn_err *err)
{
	const struct kube_resource *kind = ref->resource;

	if (ref->ns && !kind->namespaced)
		return cairn_err_set(err, CAIRN_INVALID, "%s are in no namespace", kind->plural);
	if (!ref->ns && kind->namespaced && ref->name)
		return cairn_err_set(err, CAIRN_INVALID, "%s '%s' without a namespace", kind->kind,
				     ref->name);
	if (!ref->name && ref->subresource)
		return cairn_err_set(err, CAIRN_INVALID, "%s of no %s", ref->subresource,
				     kind->kind);
	return 0;
}

int kube_ref_path(const struct kube_ref *ref, struct cairn_buf *out, struct cairn_err *err)
{
	const struct kube_resource *kind = ref->resource;
	int rc = check_namespace(ref, err);

	if (rc)
		return rc;
	cairn_buf_adds(out, kind->group[0] ? "/apis" : "/api");
	if (kind->group[0])
		rc = add_part(out, "API group", kind->group, err);
	if (!rc)
		rc = add_part(out, "version", kind->version, err);
	if (!rc && ref->ns) {
		cairn_buf_adds(out, "/namespaces");
		rc = add_part(out, "namespace", ref->ns, err);
	}
	if (!rc)
		rc = add_part(out, "resource", kind->plural, err);
	if (!rc && ref->name)
		rc = add_part(out, "name", ref->name, err);
	if (!rc && ref->subresource)
		rc = add_part(out, "subresource", ref->subresource, err);
	if (!rc && cairn_buf_failed(out))
		rc = cairn_err_nomem(err, "path");
	return rc;
}
