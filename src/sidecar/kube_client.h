/* SPDX-License-Identifier: Apache-2.0 */

/* The table of kube.h filled from a real API server.
 *
 * VolumeSnapshotContents are watched, because a handle can only be found among
 * all of them; what is kept of one is what names_base.c reads. Everything else is
 * asked for when it is wanted.
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

/* Ends every question; from any thread. */
void sidecar_kube_client_stop(struct sidecar_kube_client *client);
void sidecar_kube_client_free(struct sidecar_kube_client *client); /* accepts NULL */
CAIRN_DEFINE_CLEANUP(struct sidecar_kube_client, sidecar_kube_client_free);

/* The client itself, for what else watches; borrowed. */
struct kube_client *sidecar_kube_client_inner(struct sidecar_kube_client *client);

struct sidecar_kube sidecar_kube_client_table(struct sidecar_kube_client *client);

/* Requests made so far; `client` is a struct sidecar_kube_client. */
uint64_t sidecar_kube_client_requests(void *client);

#endif
