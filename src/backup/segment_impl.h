/* SPDX-License-Identifier: Apache-2.0 */

/* The names in a directory of segments. */
#ifndef CAIRN_BACKUP_SEGMENT_IMPL_H
#define CAIRN_BACKUP_SEGMENT_IMPL_H

#include <stddef.h>

#define SEGMENT_FILE_NAME    "img"
#define SEGMENT_GROUP_DIGITS 6U
#define SEGMENT_LEAF_DIGITS  3U
#define SEGMENT_NAME_MAX     24U

/* Returns `out`: decimal digits, so that the order of names is that of numbers. */
const char *backup_segment_name(unsigned digits, size_t number, char out[SEGMENT_NAME_MAX]);

#endif
