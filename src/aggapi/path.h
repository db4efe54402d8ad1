/* SPDX-License-Identifier: Apache-2.0 */

/* What a request asks for: its path and method, taken apart. */
#ifndef CAIRN_AGGAPI_PATH_H
#define CAIRN_AGGAPI_PATH_H

#include <stdbool.h>

#define AGGAPI_GROUP    "cbt.storage.k8s.io"
#define AGGAPI_VERSION  "v1alpha1"
#define AGGAPI_RESOURCE "volumesnapshotdeltas"
#define AGGAPI_KIND     "VolumeSnapshotDelta"

/* Kubernetes' own limits on names, with their NULs. */
#define AGGAPI_NAMESPACE_MAX 64
#define AGGAPI_NAME_MAX      254

enum aggapi_what {
	AGGAPI_UNKNOWN,
	AGGAPI_GROUPS,           /* /apis */
	AGGAPI_GROUP_INFO,       /* /apis/GROUP */
	AGGAPI_RESOURCES,        /* /apis/GROUP/VERSION */
	AGGAPI_DELTAS,           /* …/namespaces/NS/volumesnapshotdeltas */
	AGGAPI_DELTAS_OF_ALL,    /* …/volumesnapshotdeltas */
	AGGAPI_DELTA,            /* …/namespaces/NS/volumesnapshotdeltas/NAME */
	AGGAPI_OPENAPI_V2,       /* /openapi/v2 */
	AGGAPI_OPENAPI_V3,       /* /openapi/v3 */
	AGGAPI_OPENAPI_V3_GROUP, /* /openapi/v3/apis/GROUP/VERSION */
};

struct aggapi_path {
	enum aggapi_what what;
	char ns[AGGAPI_NAMESPACE_MAX]; /* "" where there is none */
	char name[AGGAPI_NAME_MAX];
};

/* Takes the decoded path apart. What is not served here is AGGAPI_UNKNOWN. */
void aggapi_path_parse(const char *path, struct aggapi_path *ret);

/* True for paths below the resource, which have verbs of their own. */
bool aggapi_path_is_resource(const struct aggapi_path *path);

/* The verb that Kubernetes' authorization knows for a method on the resource;
 * NULL for a method that is none. `watch` as the query says. */
const char *aggapi_verb(const struct aggapi_path *path, const char *method, bool watch);

/* "" or a lower-case DNS label or subdomain of Kubernetes. */
bool aggapi_name_valid(const char *name);

#endif
