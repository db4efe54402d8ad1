/* SPDX-License-Identifier: Apache-2.0 */

/* Arguments of CreateVolume that the pool itself does not store. They distinguish a
 * repeated call from one that requests a different volume under the same name, and supply
 * the source for every answer. Stored as a note with the volume.
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
	bool noted;                   /* false: no attributes are stored for this volume */
};

/* A missing note gives empty attributes with `noted` false. */
int csi_attributes_get(struct pool *pool, const char *volume_id, struct csi_attributes *ret,
		       struct cairn_err *err);
int csi_attributes_put(struct pool *pool, const char *volume_id,
		       const struct csi_attributes *attributes, struct cairn_err *err);
/* Removes them and all other notes of the volume. */
int csi_attributes_drop(struct pool *pool, const char *volume_id, struct cairn_err *err);

#endif
