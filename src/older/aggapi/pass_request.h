/* SPDX-License-Identifier: Apache-2.0 */

/* A request for a kind that is stored at another version, as it is sent on. */
#ifndef CAIRN_AGGAPI_PASS_REQUEST_H
#define CAIRN_AGGAPI_PASS_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/kube_resource.h"

struct aggapi_path;
struct aggapi_refusal;
struct net_http;

#define AGGAPI_STORED_MAX KUBE_API_VERSION_MAX

struct aggapi_pass_request {
	const char *method;
	const char *content_type; /* NULL without a body */
	char *path;               /* with the query */
	char *accept;
	json_t *tree; /* the body, at the version at which it is stored; NULL: none */
	bool watch;
	bool apply;                     /* creates the object if there is none */
	char stored[AGGAPI_STORED_MAX]; /* "GROUP/VERSION" of the CRD */
};

/* The same in other words for a list or a watch of one object: the name in
 * "fieldSelector=metadata.name=NAME", which Kubernetes authorizes. False if there is none. */
bool aggapi_pass_selected(const char *query, char *out, size_t cap);

/* The ranges of an Accept field (NULL: none was sent) that are JSON; the caller frees the
 * text. NULL if there is none, or memory is short. */
char *aggapi_pass_accept(const char *accept);

/* Makes an apply fail unless the object has this uid, or the uid that the user gave: the API
 * server creates an object for an empty one. Returns -1 if metadata is not an object, or
 * memory is short. */
int aggapi_pass_bind(json_t *tree, const char *uid);

/* Builds the request; `verb` is that of the authorization. A watch ends after `watch_s`
 * seconds. The strings of `http` are borrowed. Fails with a refusal. */
int aggapi_pass_request_make(const struct net_http *http, const struct aggapi_path *path,
			     const char *verb, uint64_t watch_s, struct aggapi_pass_request *ret,
			     struct aggapi_refusal *refusal);
void aggapi_pass_request_done(struct aggapi_pass_request *request);

#endif
