/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps one object in its intended state, through which a service publishes itself.
 *
 * A thread applies the object at the start, when the CA file changes, and once a minute,
 * so that an external change is reverted. The object is watched, and applied again at once
 * when it is deleted. A change does not have this effect: two instances with different
 * values would revert each other without end. The object is not deleted at the end: another
 * instance may still serve.
 */
#ifndef CAIRN_KUBE_PUBLISHER_H
#define CAIRN_KUBE_PUBLISHER_H

#include <jansson.h>

#include "base/cleanup.h"

struct cairn_err;
struct kube_client;
struct kube_publisher;
struct kube_resource;

struct kube_publish_options {
	const struct kube_resource *resource;
	json_t *object;             /* cluster-scoped; takes ownership, on failure too */
	const char *ca_file;        /* PEM, read again when it changes; NULL: none */
	const char *const *ca_path; /* path of the base64 field in the object; NULL-terminated */
	const char *field_manager;  /* must outlive the publisher, as must ca_path */

	/* Called on the publisher's thread. `failure` is NULL when the object was applied, the
	 * first time and after a change of the CA file; else it is the error. May be NULL. */
	void (*on_result)(const json_t *object, const struct cairn_err *failure);
};

/* The client is borrowed. Fails if the CA file cannot be read. */
int kube_publisher_new(struct kube_client *client, const struct kube_publish_options *options,
		       struct kube_publisher **ret, struct cairn_err *err);
void kube_publisher_free(struct kube_publisher *publisher); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct kube_publisher, kube_publisher_free);

#endif
