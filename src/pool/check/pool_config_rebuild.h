/* SPDX-License-Identifier: Apache-2.0 */

/* The marker of a pool whose marker is damaged or missing, for `pool check`.
 *
 * One wrong byte is put right by the checksum. Otherwise image and back end are
 * found by what is in the directory, and the rest is taken from the lines that can
 * be read, or is that of a new pool.
 */
#ifndef CAIRN_POOL_MARKER_REBUILD_H
#define CAIRN_POOL_MARKER_REBUILD_H

#include "pool/pool_config.h"

struct cairn_err;

struct marker_rebuilt {
	struct marker marker;
	char fault[256]; /* what was wrong, and what is assumed */
};

/* Writes nothing that stays.
 *
 * CAIRN_NOT_FOUND      no marker, and nothing that a pool has either
 * CAIRN_UNIMPLEMENTED  of a newer version
 * CAIRN_DATA_LOSS      the image is damaged, too
 */
int pool_config_rebuild(int dir_fd, const char *dir, struct marker_rebuilt *ret,
			struct cairn_err *err);

#endif
