/* SPDX-License-Identifier: Apache-2.0 */

/* Registers the driver with the kubelet without a registrar container: a small gRPC server
 * on its own socket in the kubelet's directory, which returns the path of the driver's
 * socket. */
#ifndef CAIRN_CSI_REGISTRATION_H
#define CAIRN_CSI_REGISTRATION_H

#include <stdbool.h>

#include "base/cleanup.h"

struct cairn_err;
struct csi_registration;

struct csi_registration_options {
	const char *directory; /* the kubelet's plugins_registry, as this process sees it */
	const char *name;      /* of the driver */
	const char *endpoint;  /* path of the driver's socket, as the kubelet sees it */
};

/* Starts serving; the kubelet connects at any time later. */
int csi_registration_new(const struct csi_registration_options *options,
			 struct csi_registration **ret, struct cairn_err *err);
/* Removes the socket, which ends the registration. */
void csi_registration_free(struct csi_registration *registration);
CAIRN_DEFINE_CLEANUP(struct csi_registration, csi_registration_free);

/* False once the kubelet has rejected the registration. */
bool csi_registration_is_good(const struct csi_registration *registration);

#endif
