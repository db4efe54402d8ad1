/* SPDX-License-Identifier: Apache-2.0 */

/* Blobs as files of a directory (blob.h). */
#ifndef CAIRN_POOL_BLOB_DIR_H
#define CAIRN_POOL_BLOB_DIR_H

#include "pool/store/blob.h"

/* Takes the descriptor of the directory over, also on failure. */
int pool_blob_dir_open(int fd, struct blobs **ret, struct cairn_err *err);

#endif
