/* SPDX-License-Identifier: Apache-2.0 */

/* Publishes a driver's sidecar as a DriverDiscovery, which is applied at the start and
 * restored if it is deleted or changed. */
#ifndef CAIRN_AGGAPI_PUBLISH_H
#define CAIRN_AGGAPI_PUBLISH_H

struct cairn_err;
struct kube_client;
struct kube_publisher;

struct aggapi_publish_options {
	const char *driver;
	const char *url;     /* exactly one of these two */
	const char *service; /* "namespace/name[:port][/path]" */
	const char *ca_file; /* PEM, read again when it changes; NULL: the system's trust store */
};

/* Checks the options and starts; the client is borrowed. See kube/publisher.h.
 *
 * CAIRN_INVALID  an option is wrong
 * others         the CA file cannot be read
 */
int aggapi_publish(struct kube_client *client, const struct aggapi_publish_options *options,
		   struct kube_publisher **ret, struct cairn_err *err);

#endif
