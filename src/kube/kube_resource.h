/* SPDX-License-Identifier: Apache-2.0 */

/* Kinds of objects and their paths in the API. */
#ifndef CAIRN_KUBE_RESOURCE_H
#define CAIRN_KUBE_RESOURCE_H

#include <stdbool.h>

struct cairn_buf;
struct cairn_err;

/* The names of a kind in URLs and in objects. */
struct kube_resource {
	const char *group; /* "" is the core group */
	const char *version;
	const char *plural; /* "volumesnapshots" */
	const char *kind;   /* "VolumeSnapshot" */
	bool namespaced;
};

extern const struct kube_resource kube_nodes;
extern const struct kube_resource kube_pods;
extern const struct kube_resource kube_endpointslices;
extern const struct kube_resource kube_secrets;
extern const struct kube_resource kube_configmaps;
extern const struct kube_resource kube_serviceaccounts;
extern const struct kube_resource kube_persistentvolumes;
extern const struct kube_resource kube_persistentvolumeclaims;
extern const struct kube_resource kube_events; /* events.k8s.io */
extern const struct kube_resource kube_leases;
extern const struct kube_resource kube_jobs;
extern const struct kube_resource kube_cronjobs;
extern const struct kube_resource kube_storageclasses;
extern const struct kube_resource kube_csidrivers;
extern const struct kube_resource kube_csinodes;
extern const struct kube_resource kube_volumesnapshots;
extern const struct kube_resource kube_volumesnapshotcontents;
extern const struct kube_resource kube_volumesnapshotclasses;
extern const struct kube_resource kube_snapshotmetadataservices;
extern const struct kube_resource kube_tokenreviews;
extern const struct kube_resource kube_selfsubjectreviews;
extern const struct kube_resource kube_subjectaccessreviews;
extern const struct kube_resource kube_selfsubjectaccessreviews;

/* One object; with `name` NULL all objects of a kind, in one namespace, or in all of them
 * with `ns` NULL. The strings are borrowed. */
struct kube_ref {
	const struct kube_resource *resource;
	const char *ns;
	const char *name;
	const char *subresource; /* "status", "token"; NULL is the object itself */
};

/* A reference for one call: kube_get(client, KUBE_REF(&kube_pods, "ns", "p"), …) */
#define KUBE_REF(which, space, object) \
	(&(const struct kube_ref){.resource = (which), .ns = (space), .name = (object)})
#define KUBE_SUB(which, space, object, sub) \
	(&(const struct kube_ref){          \
		.resource = (which), .ns = (space), .name = (object), .subresource = (sub)})

/* "v1" or "group/version". */
#define KUBE_API_VERSION_MAX 320
void kube_api_version(const struct kube_resource *resource, char out[KUBE_API_VERSION_MAX]);

/* Appends the path of `ref`, each part percent-encoded, so that an untrusted name cannot
 * change the path.
 *
 * CAIRN_INVALID   the kind has no namespace and one is given, a name is empty, or
 *                 is "." or "..", or a namespaced object has no namespace
 * CAIRN_NO_SPACE  out of memory
 */
int kube_ref_path(const struct kube_ref *ref, struct cairn_buf *out, struct cairn_err *err);

/* Appends `text` with everything but unreserved characters percent-encoded. */
void kube_url_escape(struct cairn_buf *out, const char *text);

#endif
