/* SPDX-License-Identifier: Apache-2.0 */

/* Writes as a client that the pool knows: the locks of one that was killed are taken over at
 * once, and not when Ceph gives it up after 30 s. */

#include "storm.h"

#include "base/cleanup.h"
#include "base/err.h"

#ifdef STORM_HAS_RBD
#include "pool/pool_impl.h"
#include "pool/rbd/rbd_image.h"

bool storm_write_rbd(struct pool *pool, const char *volume_id, uint64_t offset, const void *block)
{
	cairn_cleanup(rbd_image_done) struct rbd_image_handle handle = {0};
	struct cairn_err err = {0};

	if (rbd_image_open(pool->site_data, volume_id, true, &handle, &err) != 0)
		return false;
	return handle.api->rbd_write2(handle.image, offset, STORM_BLOCK, block, 0) ==
		       (ssize_t)STORM_BLOCK &&
	       handle.api->rbd_flush(handle.image) == 0;
}
#else
bool storm_write_rbd(struct pool *pool, const char *volume_id, uint64_t offset, const void *block)
{
	(void)pool;
	(void)volume_id;
	(void)offset;
	(void)block;
	return false;
}
#endif
