/* SPDX-License-Identifier: Apache-2.0 */

/* One request to the aggregated API server, from its first check to its answer. */
#ifndef CAIRN_AGGAPI_REQUEST_H
#define CAIRN_AGGAPI_REQUEST_H

#include "kube/caller.h"
#include "older/aggapi/path.h"

struct kube_user;
struct net_http;

struct aggapi_request {
	struct net_http *http;
	struct aggapi_path path;
	char method[16];  /* in lower case */
	const char *verb; /* of Kubernetes: "list", "create", … */
	struct kube_caller caller;
	struct kube_user *user; /* NULL before it is authenticated */
};

#endif
