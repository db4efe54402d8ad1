/* SPDX-License-Identifier: Apache-2.0 */

/* Publishes the address of a driver's service to the session manager, as a
 * SnapshotServicesConfiguration. */
#ifndef CAIRN_SIDECAR_ADVERT_H
#define CAIRN_SIDECAR_ADVERT_H

struct cairn_err;
struct kube_client;
struct kube_publisher;

struct sidecar_publish_config_options {
	const char *name;    /* of the object */
	const char *driver;  /* driver that the service belongs to */
	const char *ns;      /* namespace of the driver; NULL: the client's */
	const char *address; /* host:port */
	const char *ca_file; /* PEM */
};

/* Starts publishing; the client is borrowed. See kube/publisher.h. */
int sidecar_advertise(struct kube_client *client,
		      const struct sidecar_publish_config_options *options,
		      struct kube_publisher **ret, struct cairn_err *err);

#endif
