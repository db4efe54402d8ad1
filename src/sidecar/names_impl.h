/* SPDX-License-Identifier: Apache-2.0 */

/* Definitions shared by the files that implement names.h. */
#ifndef CAIRN_SIDECAR_NAMES_IMPL_H
#define CAIRN_SIDECAR_NAMES_IMPL_H

#include <stdatomic.h>

#include "sidecar/resolve.h"

struct sidecar_resolve {
	struct sidecar_kube kube;
	struct kube_cache *snapshots;
	struct kube_cache *classes;
	bool nodes;
	atomic_flag told_blind; /* set once the missing permission to list contents was logged */
};

/* Maps a failed read to the code for the caller of a stream: NOT_FOUND and codes for which
 * a retry helps are kept, all others become internal errors. Returns the code. */
int sidecar_read_failed(int rc, struct cairn_err *err);

/* Reads the class and the secret of a snapshot; *ret stays NULL if the driver needs none. */
int sidecar_secret_find(struct sidecar_resolve *names, const char *driver,
			const struct sidecar_snapshot *snapshot, const struct kube_wait *wait,
			struct sidecar_secret **ret, struct cairn_err *err);

#endif
