/* SPDX-License-Identifier: Apache-2.0 */

/* Tells the manager of sessions where a driver's service is: its
 * SnapshotServicesConfiguration. */
#ifndef CAIRN_SIDECAR_ADVERT_H
#define CAIRN_SIDECAR_ADVERT_H

struct cairn_err;
struct kube_client;
struct kube_publisher;

struct sidecar_advert_options {
	const char *name;    /* of the object */
	const char *driver;  /* whose service it is */
	const char *ns;      /* that the driver runs in; NULL: the client's */
	const char *address; /* host:port */
	const char *ca_file; /* PEM */
};

/* Begins; the client is borrowed. See kube/publisher.h. */
int sidecar_advertise(struct kube_client *client, const struct sidecar_advert_options *options,
		      struct kube_publisher **ret, struct cairn_err *err);

#endif
