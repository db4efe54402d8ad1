/* SPDX-License-Identifier: Apache-2.0 */

/* What a CreateVolume call said that the pool itself does not keep: needed to
 * tell a repeated call from one that wants something else under the same name,
 * and to name the source in every answer. Kept as a note with the volume.
 */
#ifndef CAIRN_CSI_ATTRIBUTES_H
#define CAIRN_CSI_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/pool.h"

struct cairn_err;

struct csi_attributes {
	char source[POOL_ID_MAX + 1]; /* id of a volume or snapshot; "" */
	uint64_t parameters;          /* checksum over the parameters, sorted */
	bool noted;                   /* false: nothing is known of this volume */
};

/* An absent note gives empty attributes, not `noted`. */
int csi_attributes_get(struct pool *pool, const char *volume_id, struct csi_attributes *ret,
		       struct cairn_err *err);
int csi_attributes_put(struct pool *pool, const char *volume_id,
		       const struct csi_attributes *attributes, struct cairn_err *err);
/* Forgets them and everything else noted under the volume. */
int csi_attributes_drop(struct pool *pool, const char *volume_id, struct cairn_err *err);

#endif
