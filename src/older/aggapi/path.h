/* SPDX-License-Identifier: Apache-2.0 */

/* Parses the path and method of a request. */
#ifndef CAIRN_AGGAPI_PATH_H
#define CAIRN_AGGAPI_PATH_H

#include <stdbool.h>

struct kube_resource;

#define AGGAPI_GROUP    "cbt.storage.k8s.io"
#define AGGAPI_VERSION  "v1alpha1"
#define AGGAPI_RESOURCE "volumesnapshotdeltas"
#define AGGAPI_KIND     "VolumeSnapshotDelta"

/* Kubernetes' own limits on names, with their NULs. */
#define AGGAPI_NAMESPACE_MAX 64
#define AGGAPI_NAME_MAX      254

enum aggapi_what {
	AGGAPI_UNKNOWN,
	AGGAPI_GROUPS,        /* /apis */
	AGGAPI_GROUP_INFO,    /* /apis/GROUP */
	AGGAPI_RESOURCES,     /* /apis/GROUP/VERSION */
	AGGAPI_DELTAS,        /* …/namespaces/NS/volumesnapshotdeltas */
	AGGAPI_DELTAS_OF_ALL, /* …/volumesnapshotdeltas */
	AGGAPI_DELTA,         /* …/namespaces/NS/volumesnapshotdeltas/NAME */
	AGGAPI_PASSED, /* a kind of passed_kinds.h: …[/namespaces/NS]/RESOURCE[/NAME[/status]] */
	AGGAPI_OPENAPI_V2,       /* /openapi/v2 */
	AGGAPI_OPENAPI_V3,       /* /openapi/v3 */
	AGGAPI_OPENAPI_V3_GROUP, /* /openapi/v3/apis/GROUP/VERSION */
};

struct aggapi_path {
	enum aggapi_what what;
	char ns[AGGAPI_NAMESPACE_MAX]; /* "" if there is none */
	char name[AGGAPI_NAME_MAX];
	const struct kube_resource *passed; /* of AGGAPI_PASSED: where it is stored */
	const char *subresource;            /* "status" or NULL */
};

/* Parses the decoded path. AGGAPI_UNKNOWN if it is not served here. */
void aggapi_path_parse(const char *path, struct aggapi_path *ret);

/* True for paths of resources, which have verbs of their own. */
bool aggapi_path_is_resource(const struct aggapi_path *path);

/* The plural of a path's resource. */
const char *aggapi_path_resource(const struct aggapi_path *path);

/* Returns the authorization verb for a method on the resource; NULL for an unknown method.
 * `watch` is taken from the query; it does not matter for one object, as in Kubernetes. */
const char *aggapi_verb(const struct aggapi_path *path, const char *method, bool watch);

/* True for "" and for a lower-case DNS label or subdomain as in Kubernetes. */
bool aggapi_name_valid(const char *name);

#endif
