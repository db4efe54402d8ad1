/* SPDX-License-Identifier: Apache-2.0 */

#include "csi/size.h"

#include "base/err.h"
#include "pool/pool.h"

int csi_size_range(const Csi__V1__CapacityRange *range, struct csi_size_range *ret,
		   struct cairn_err *err)
{
	*ret = (struct csi_size_range){0};
	if (!range)
		return 0;
	if (range->required_bytes < 0 || range->limit_bytes < 0)
		return cairn_err_set(err, CAIRN_RANGE, "the capacity range is negative");
	if (range->limit_bytes && range->required_bytes > range->limit_bytes)
		return cairn_err_set(err, CAIRN_RANGE,
				     "the capacity range asks for more than it allows");
	ret->least = (uint64_t)range->required_bytes;
	ret->most = (uint64_t)range->limit_bytes;
	return 0;
}

bool csi_size_fits(const struct csi_size_range *range, uint64_t size)
{
	return size >= range->least && (range->most == 0 || size <= range->most);
}

int csi_size_choose(const struct csi_size_range *range, uint64_t floor, uint64_t *ret,
		    struct cairn_err *err)
{
	uint64_t size = range->least ? range->least : CSI_SIZE_DEFAULT;

	if (!range->least && range->most && size > range->most)
		size = range->most - range->most % POOL_SECTOR;
	/* Without a requested size the source's size is used; a requested size is exact or an
	 * error. */
	if (floor && !range->least)
		size = floor;
	if (size > POOL_VOLUME_SIZE_MAX)
		return cairn_err_set(err, CAIRN_RANGE, "the capacity asked for is too large");
	size += (POOL_SECTOR - size % POOL_SECTOR) % POOL_SECTOR;
	if (size < floor)
		return cairn_err_set(err, CAIRN_RANGE,
				     "the capacity asked for is below the source's");
	if (!csi_size_fits(range, size) || size == 0)
		return cairn_err_set(err, CAIRN_RANGE,
				     "no multiple of %u bytes is in the capacity range",
				     POOL_SECTOR);
	*ret = size;
	return 0;
}
