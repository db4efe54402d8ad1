/* SPDX-License-Identifier: Apache-2.0 */

/* Implements the table of kube.h with a real API server.
 *
 * VolumeSnapshotContents are watched, because only a search over all of them finds a
 * handle; only the fields that names_base.c reads are stored. All other objects are read
 * on demand.
 */
#ifndef CAIRN_SIDECAR_KUBE_CLIENT_H
#define CAIRN_SIDECAR_KUBE_CLIENT_H

#include <stdint.h>

#include "base/cleanup.h"
#include "sidecar/kube.h"

struct cairn_err;
struct kube_client;
struct sidecar_kube_client;

struct sidecar_kube_client_options {
	const char *kubeconfig; /* NULL or "": as kube_config_load() finds it */
	double qps;
	unsigned burst;
};

int sidecar_kube_client_new(const struct sidecar_kube_client_options *options,
			    struct sidecar_kube_client **ret, struct cairn_err *err);

/* Cancels all calls. Accepts NULL. */
void sidecar_kube_client_free(struct sidecar_kube_client *client);
CAIRN_DEFINE_CLEANUP(struct sidecar_kube_client, sidecar_kube_client_free);

/* The client itself, for other watches; borrowed. */
struct kube_client *sidecar_kube_client_inner(struct sidecar_kube_client *client);

struct sidecar_kube sidecar_kube_client_table(struct sidecar_kube_client *client);

/* Number of requests made so far; `client` is a struct sidecar_kube_client. */
uint64_t sidecar_kube_client_requests(void *client);

#endif
