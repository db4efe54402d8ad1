/* SPDX-License-Identifier: Apache-2.0 */

/* Makes the driver known to the kubelet, so that no registrar container is
 * needed: a small server on a socket of its own in the kubelet's directory,
 * which says where the driver's socket is. */
#ifndef CAIRN_CSI_REGISTRATION_H
#define CAIRN_CSI_REGISTRATION_H

#include <stdbool.h>

#include "base/cleanup.h"

struct cairn_err;
struct csi_registration;

struct csi_registration_options {
	const char *directory; /* the kubelet's plugins_registry, as we see it */
	const char *name;      /* of the driver */
	const char *endpoint;  /* path of the driver's socket, as the kubelet sees it */
};

/* Starts serving; the kubelet comes when it likes. */
int csi_registration_new(const struct csi_registration_options *options,
			 struct csi_registration **ret, struct cairn_err *err);
/* The socket goes, and with it the registration. */
void csi_registration_free(struct csi_registration *registration);
CAIRN_DEFINE_CLEANUP(struct csi_registration, csi_registration_free);

/* False from the moment the kubelet said that it will not have us. */
bool csi_registration_is_good(const struct csi_registration *registration);

#endif
