/* SPDX-License-Identifier: Apache-2.0 */

/* Requested sizes in CSI: a minimum, a maximum, or neither. */
#ifndef CAIRN_CSI_SIZE_H
#define CAIRN_CSI_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "csi_types.pb-c.h"

struct cairn_err;

/* The size of a volume if none is requested. */
#define CSI_SIZE_DEFAULT (1ULL << 30)

struct csi_size_range {
	uint64_t least; /* 0: not set */
	uint64_t most;  /* 0: no limit */
};

/* CAIRN_RANGE  negative, or the minimum is above the maximum */
int csi_size_range(const Csi__V1__CapacityRange *range, struct csi_size_range *ret,
		   struct cairn_err *err);

bool csi_size_fits(const struct csi_size_range *range, uint64_t size);

/* Chooses the size: whole sectors, not below `floor` (the source's size). CAIRN_RANGE if
 * no size fits. */
int csi_size_choose(const struct csi_size_range *range, uint64_t floor, uint64_t *ret,
		    struct cairn_err *err);

#endif
