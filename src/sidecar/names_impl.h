/* SPDX-License-Identifier: Apache-2.0 */

/* What the files of names.h share. */
#ifndef CAIRN_SIDECAR_NAMES_IMPL_H
#define CAIRN_SIDECAR_NAMES_IMPL_H

#include <stdatomic.h>

#include "sidecar/names.h"

struct sidecar_names {
	struct sidecar_kube kube;
	struct kube_cache *snapshots;
	struct kube_cache *classes;
	atomic_flag told_blind; /* it was logged that contents can not be listed */
};

/* A failed read as the caller of a stream should see it: NOT_FOUND stays, what a
 * retry helps with stays, all else is our own trouble. Returns the code. */
int sidecar_read_failed(int rc, struct cairn_err *err);

/* Reads the class and the secret of a snapshot; *ret stays NULL when the driver
 * wants none. */
int sidecar_secret_find(struct sidecar_names *names, const char *driver,
			const struct sidecar_snapshot *snapshot, const struct kube_wait *wait,
			struct sidecar_secret **ret, struct cairn_err *err);

#endif
