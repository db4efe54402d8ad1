/* SPDX-License-Identifier: Apache-2.0 */

/* Sizes as CSI asks for them: at least, at most, or anything. */
#ifndef CAIRN_CSI_SIZE_H
#define CAIRN_CSI_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "csi_types.pb-c.h"

struct cairn_err;

/* What a volume gets when nothing is asked for. */
#define CSI_SIZE_DEFAULT (1ULL << 30)

struct csi_size_range {
	uint64_t least; /* 0: nothing asked for */
	uint64_t most;  /* 0: no limit */
};

/* CAIRN_RANGE  negative, or the least is above the most */
int csi_size_range(const Csi__V1__CapacityRange *range, struct csi_size_range *ret,
		   struct cairn_err *err);

bool csi_size_fits(const struct csi_size_range *range, uint64_t size);

/* The size to make: whole sectors, not below `floor` (the source's size).
 * CAIRN_RANGE when there is none. */
int csi_size_choose(const struct csi_size_range *range, uint64_t floor, uint64_t *ret,
		    struct cairn_err *err);

#endif
