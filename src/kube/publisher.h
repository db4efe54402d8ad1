/* SPDX-License-Identifier: Apache-2.0 */

/* Keeps one object as it should be: by which a service makes itself known.
 *
 * A thread of its own applies it at the start, when the authorities in its file
 * change, and once a minute, so that what somebody deleted or changed comes
 * back. Nothing is taken away at the end: another instance may serve on.
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
	json_t *object;             /* not in a namespace; taken over, on failure too */
	const char *ca_file;        /* PEM, read again when it changes; NULL: none */
	const char *const *ca_path; /* where it stands in the object, as base64; up to a NULL */
	const char *field_manager;  /* lives as long as the publisher, as does ca_path */

	/* On the publisher's thread: NULL when the object is there as it should be, the first
	 * time and when the authorities were new; else why it is not. May be NULL. */
	void (*told)(const json_t *object, const struct cairn_err *failure);
};

/* The client is borrowed. Fails when the authorities can not be read. */
int kube_publisher_new(struct kube_client *client, const struct kube_publish_options *options,
		       struct kube_publisher **ret, struct cairn_err *err);
void kube_publisher_free(struct kube_publisher *publisher); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct kube_publisher, kube_publisher_free);

#endif
